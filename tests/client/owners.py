"""An owner that does what a test tells it: it hears calls at a socket and answers them, or not, or leaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dirtybus.errors import DirtyError
from dirtybus.protocol.arguments import decode_arguments
from dirtybus.protocol.codec import encode_body, loaded_types
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import (
    Call,
    Chunk,
    Drain,
    End,
    Failure,
    Goodbye,
    Hello,
    Reply,
)
from dirtybus.protocol.messages import Message
from dirtybus.transport.link import Link
from tests.arbiter.serving import until

APP = "shop:Model"
ONCE, TWICE = "buy", "price"


class Peer(Link):
    """One connection; keeps every message that came."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(Connection(Side.CALLEE, 1 << 26), self._take, self._note_lost)
        self.heard: list[Message] = []
        self.is_lost = False
        self._owner = owner
        owner.peers.append(self)

    @property
    def calls(self) -> list[Message]:
        return [message for message in self.heard if isinstance(message.head, Call)]

    def reply(self, call: Message, value: Any = None) -> None:
        """Answer with ``value``; by default with the call's first argument."""
        given = decode_arguments(call.payload, resolve=loaded_types)[0]
        self.send(Message(Reply(), call.id, encode_body(value if value is not None or not given else given[0])))

    def chunk(self, call: Message, value: Any) -> None:
        self.send(Message(Chunk(), call.id, encode_body(value)))

    def end(self, call: Message) -> None:
        self.send(Message(End(), call.id))

    def fail(self, call: Message, error: DirtyError) -> None:
        self.send(Message(Failure(error=error.to_dict()), call.id))

    def leave(self) -> None:
        """Close in order, as an owner does that was told to stop."""
        self.send(Message(Goodbye()))
        self.close()

    def drain(self) -> None:
        self.send(Message(Drain()))

    def _take(self, message: Message) -> None:
        self.heard.append(message)
        if isinstance(message.head, Hello) and self._owner.greets:
            self.send(Message(Hello(role="arbiter", pid=os.getpid(), version="0", idempotent=[(APP, TWICE)])))
        elif isinstance(message.head, Call) and self._owner.on_call is not None:
            self._owner.on_call(self, message)

    def _note_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Owner:
    """Its connections, in the order in which they were made."""

    def __init__(self, *, greets: bool = True, on_call: Callable[[Peer, Message], object] | None = None) -> None:
        self.greets = greets
        self.on_call = on_call
        self.peers: list[Peer] = []

    @property
    def calls(self) -> list[Message]:
        return [call for peer in self.peers for call in peer.calls]

    async def hear(self, count: int = 1) -> list[Message]:
        """Wait for so many calls, and return them."""
        await until(lambda: len(self.calls) >= count)
        return self.calls


@asynccontextmanager
async def owning(path: str, **settings: Any) -> AsyncIterator[Owner]:
    """Yield an owner that listens at ``path``; at the end its connections break, and nobody says goodbye."""
    owner = Owner(**settings)
    server = await asyncio.get_running_loop().create_unix_server(lambda: Peer(owner), path)
    try:
        yield owner
    finally:
        server.close()
        Path(path).unlink(missing_ok=True)  # Python 3.13 does it when the server is closed
        for peer in owner.peers:
            peer.abort()
        await until(lambda: all(peer.is_lost for peer in owner.peers))


def replies(peer: Peer, call: Message) -> None:
    """As ``on_call``: give back the first argument."""
    peer.reply(call)
