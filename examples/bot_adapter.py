"""Stands in for a chat library: an event for each message that arrives, and the service that brings them.

A real bot has this part from its adapter and changes nothing in the other files.
"""

from __future__ import annotations

import asyncio
from typing import Any

from graia.broadcast import Broadcast
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface
from launart import Launart, Service
from launart.status import Phase

from dirtybus.events import ShutdownRequested

SCRIPT = [
    ("Ada", "hello"),
    ("Grace", "hello"),
    ("Linus", "spell events are never lost"),
    ("Ada", "hello"),
    ("Bob", "?"),
]


class MessageReceived(Dispatchable):
    """Somebody said something."""

    def __init__(self, sender: str, text: str) -> None:
        self.sender = sender
        self.text = text

    async def reply(self, text: str) -> None:
        """Answer in the chat; here: on the screen."""
        print(f"{self.sender}: {self.text}\n    bot: {text}", flush=True)

    class Dispatcher(BaseDispatcher):
        @classmethod
        async def catch(cls, interface: DispatcherInterface[Any]) -> Any:
            return interface.event if interface.annotation is MessageReceived else None


class ScriptedChat(Service):
    """Says the lines of `SCRIPT` as fast as it can, then asks the program to end."""

    id = "example.chat"

    def __init__(self, bcc: Broadcast) -> None:
        super().__init__()
        self._bcc = bcc

    @property
    def required(self) -> set[str]:
        return set()  # nothing to wait for: what arrives too early is held, not lost

    @property
    def stages(self) -> set[Phase]:
        return {"blocking"}

    async def launch(self, manager: Launart) -> None:
        async with self.stage("blocking"):
            # a posted event is a task that ends when its listeners have
            await asyncio.gather(*(self._bcc.postEvent(MessageReceived(*line)) for line in SCRIPT))
            self._bcc.postEvent(ShutdownRequested("the chat is over"))
