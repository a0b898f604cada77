"""StashService: shared state outlives everybody who uses it. Must never learn what is in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from loguru import logger

from dirtybus.events import StashChanged
from dirtybus.services.base import DirtyService
from dirtybus.services.reporter import Reporter
from dirtybus.stash.host import StashHost
from dirtybus.stash.keeper import Keeper

__all__ = ["StashService"]


class StashService(DirtyService):
    """Prepared before the first app can ask for a table, cleaned up after the last one has left.

    Whoever needs the stash until its own end puts ``dirtybus.stash`` into its ``required``. The tables stay readable
    after the application has ended.

    Args:
        keeper: keeps the tables.
        release: called at the end, perhaps twice: nobody is to find the way to the tables any more.
        tell: puts changes on the bus.
    """

    id = "dirtybus.stash"

    def __init__(
        self,
        keeper: Keeper,
        release: Callable[[], object] = lambda: None,
        tell: Callable[[StashChanged], Awaitable[object] | None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._reporter = Reporter(keeper.news, tell)
        self._keeper = keeper
        self._host = StashHost(keeper)
        self._release = release

    async def start(self) -> None:
        self._reporter.start()
        await self._host.start()
        if names := self._keeper.state.tables.names():
            logger.info("the stash has {} tables from before: {}", len(names), ", ".join(names))

    async def drain(self, within_s: float) -> None:
        tables = self._keeper.state.tables
        logger.debug("the stash ends with {} tables of {} bytes", len(tables.names()), tables.size_bytes)
        try:
            await self._host.stop(within_s)
        finally:
            await self._reporter.close()
            self._release()

    def kill(self) -> None:
        self._host.kill()
        self._reporter.kill()
        self._release()
