"""All or nothing: how several steps on the tables become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dirtybus.stash.names import RESERVED
from dirtybus.stash.op import StashReply

if TYPE_CHECKING:
    from dirtybus.stash.all_tables import StashTables
    from dirtybus.stash.one_table import Table

__all__ = ["on_made"]


def on_made(tables: StashTables, name: str, step: Callable[[Table, float], StashReply], now: float) -> StashReply:
    """Do ``step`` on the table, making it if need be; one that is made goes again when the step is refused.

    Raises:
        StashError: as `StashTables.made`, or as the step.
    """
    table = tables.find(name)
    if table is not None and not name.startswith(RESERVED):
        return step(table, now)
    return tables.book.all_or_nothing(lambda: step(tables.made(name), now))
