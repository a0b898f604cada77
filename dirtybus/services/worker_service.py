"""WorkerService: has the workers started, resized and retired. Must never learn how a worker is made."""

from __future__ import annotations

from typing import Protocol

from graia.broadcast import Broadcast
from loguru import logger

from dirtybus.events import DrainEnded, ScaleRequested
from dirtybus.services.base import DirtyService
from dirtybus.services.news import listening, tell

__all__ = ["WorkerPool", "WorkerService"]

#: how long the listeners of `DrainEnded` hold up the end
TELL_WITHIN_S = 0.5


class WorkerPool(Protocol):
    """Whoever runs the workers."""

    async def start(self) -> object:
        """Return when every worker is ready. Raises when they cannot be."""

    async def watch(self) -> object:
        """Return or raise only when the workers are beyond repair."""

    async def drain(self, within_s: float) -> bool:
        """Let queued and running calls end, then retire the workers. False when calls were cut."""

    def resize(self, workers: int) -> int:
        """Have so many workers from now on; returns how many it will be."""

    def kill(self) -> object:
        """Kill every worker and fail every call, without awaiting. May be called twice."""


class WorkerService(DirtyService):
    """Prepared when every worker is ready; cleaned up when the last one has left. Posts `DrainEnded` then.

    While it runs, a `ScaleRequested` resizes the pool.
    """

    id = "dirtybus.workers"
    requires = frozenset({"dirtybus.arbiter"})

    def __init__(self, arbiter: WorkerPool, broadcast: Broadcast) -> None:
        super().__init__()
        self._arbiter = arbiter
        self._broadcast = broadcast

    async def start(self) -> None:
        await self._arbiter.start()

    async def watch(self) -> None:
        with listening(self._broadcast, ScaleRequested, self._resize):
            await self._arbiter.watch()

    async def drain(self, within_s: float) -> None:
        try:
            is_clean = await self._arbiter.drain(within_s)
        except Exception:
            await self._tell_ended(is_clean=False)
            raise
        if not is_clean:
            self.guard.cut(f"calls were still running {self.guard.limits.graceful_s:g} s after the exit began")
        await self._tell_ended(is_clean=not self.guard.verdict.cuts)

    def kill(self) -> None:
        self._arbiter.kill()

    async def _tell_ended(self, *, is_clean: bool) -> None:
        await tell(self._broadcast, DrainEnded(clean=is_clean), within_s=TELL_WITHIN_S)

    async def _resize(self, event: ScaleRequested) -> None:
        logger.info(
            "{} workers were asked for: the pool goes to {}", event.workers, self._arbiter.resize(event.workers)
        )
