"""ArbiterService: the arbiter's socket and ledger live as long as this. Must never learn of workers."""

from __future__ import annotations

from typing import Protocol

from dirtybus.services.base import DirtyService

__all__ = ["ArbiterService", "Listening"]


class Listening(Protocol):
    """Whoever can be reached by other processes."""

    async def listen(self) -> object:
        """Be reachable; take no calls yet."""

    async def close(self) -> object:
        """Stop being reachable, and let go of everything."""

    def kill(self) -> object:
        """The same at once, without awaiting. May be called twice."""


class ArbiterService(DirtyService):
    """Reachable from before the first worker starts until the last one has left; takes calls when the gate says so."""

    id = "dirtybus.arbiter"
    requires = frozenset({"dirtybus.stash"})
    start_within_s = 30.0

    def __init__(self, arbiter: Listening) -> None:
        super().__init__()
        self._arbiter = arbiter

    async def start(self) -> None:
        await self._arbiter.listen()

    async def drain(self, within_s: float) -> None:
        await self._arbiter.close()

    def kill(self) -> None:
        self._arbiter.kill()
