"""StashService: the tables of shared state outlive everybody who uses them. Must never learn what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from loguru import logger

from dirtybus.services.base import DirtyService

__all__ = ["StashService", "Tables"]


class Tables(Protocol):
    """Whoever has the tables."""

    def tables(self) -> list[str]: ...

    @property
    def size_bytes(self) -> int: ...


AnyTables = TypeVar("AnyTables", bound=Tables)


class StashService(DirtyService, Generic[AnyTables]):
    """Prepared before the first app can ask for a table, cleaned up after the last one has left.

    Whoever needs the tables until its own end puts ``dirtybus.stash`` into its ``required``. The tables stay readable
    after the application has ended.

    Args:
        tables: the tables.
        release: called at the end, perhaps twice: nobody is to find the way to the tables any more.
    """

    id = "dirtybus.stash"

    def __init__(self, tables: AnyTables, release: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.tables = tables
        self._release = release

    async def start(self) -> None:
        if names := self.tables.tables():
            logger.info("the stash has {} tables from before: {}", len(names), ", ".join(names))

    async def drain(self, within_s: float) -> None:
        logger.debug("the stash ends with {} tables of {} bytes", len(self.tables.tables()), self.tables.size_bytes)
        self._release()

    def kill(self) -> None:
        self._release()
