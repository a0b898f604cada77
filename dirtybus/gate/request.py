"""Request: a permit that tasks can wait for. It must never decide who gets a slot."""

from __future__ import annotations

import asyncio
from typing import Any

from graia.broadcast import Broadcast
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.gate.permits import Permit

__all__ = ["Request"]


class Request(Permit):
    """A permit, the event it was asked for, and those who wait for it to have a slot."""

    __slots__ = ("broadcast", "event", "turns")

    def __init__(self, interface: DispatcherInterface[Any], asked_at: float) -> None:
        super().__init__(asked_at)
        self.broadcast: Broadcast = interface.broadcast
        self.event: Dispatchable | None = interface.event
        self.turns: list[asyncio.Future[None]] = []

    async def turn(self) -> None:
        """Wait until the permit's wait is over, whichever way. Cancelling leaves the permit as it is."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.turns.append(turn)
        await turn

    def wake(self) -> None:
        turns, self.turns = self.turns, []
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
