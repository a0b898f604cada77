"""All that one owner keeps for others: tables, leases, and what changed. Pure; time is an argument."""

from __future__ import annotations

from typing import Final

from dirtybus.config.stash import StashConfig
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.changes import ChangeLogs
from dirtybus.stash.leases import Leases

__all__ = ["StashState"]


class StashState:
    """The tables, and what stands on them."""

    def __init__(self, config: StashConfig | None = None, *, first_version: int = 0) -> None:
        self.tables: Final = StashTables(
            config, first_version=first_version, follows_all=config is not None and config.persist is not None
        )
        self.leases: Final = Leases(self.tables)
        self.logs: Final = ChangeLogs(self.tables)
