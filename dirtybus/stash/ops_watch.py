"""The operation that waits for changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from msgspec import structs

from dirtybus.stash.glob import compile_glob
from dirtybus.stash.op import StashReply
from dirtybus.stash.waiting_op import Topic, WaitingOp

if TYPE_CHECKING:
    from dirtybus.stash.state import StashState

__all__ = ["Watch"]

_MOST_CHANGES = 1000
#: Shorter than a log is kept that nobody asks for.
_LONGEST_WAIT_S = 60.0


class Watch(WaitingOp, frozen=True, tag="watch"):
    """Ask for the changes of a table since a cursor, waiting for one if there is none; without a cursor, for one.

    With a ``pattern``, only for those of str keys that match it, and of the whole table. ``cursor`` is where to go on.
    ``is_true`` is False when changes were forgotten since: ``count`` of them, or an unknown number when that is 0.
    """

    table: str
    pattern: str | None = None
    since: tuple[int, int] | None = None
    wait_s: float = 0.0

    is_fair = False

    @property
    def longest_wait_s(self) -> float:
        return min(self.wait_s, _LONGEST_WAIT_S)

    @property
    def topic(self) -> Topic:
        return "watch", self.table

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply | None:
        if self.since is None:
            if self.pattern is not None:
                compile_glob(self.pattern)  # a wrong one is told at once
            return StashReply(cursor=state.logs.begin(self.table, now))
        changes, cursor, lost = state.logs.read(self.table, self.since, self.pattern, _MOST_CHANGES, now)
        if lost is not None:
            return StashReply(is_true=False, count=lost, cursor=cursor)
        return StashReply(changes=tuple(changes), cursor=cursor) if changes else None

    def moved_on(self, state: StashState, now: float) -> Watch:
        """Pass by the changes that do not match: they need not be read again, nor be remembered for this watcher."""
        if self.since is None:
            return self
        changes, cursor, lost = state.logs.read(self.table, self.since, self.pattern, _MOST_CHANGES, now)
        return self if changes or lost is not None else structs.replace(self, since=cursor)

    def give_up(self, state: StashState, now: float) -> StashReply:
        assert self.since is not None
        changes, cursor, lost = state.logs.read(self.table, self.since, self.pattern, _MOST_CHANGES, now)
        return StashReply(is_true=lost is None, count=lost or 0, changes=tuple(changes), cursor=cursor)
