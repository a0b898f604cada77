"""LockerSnapshot: what a ProcessLocker shows of itself. It must never change anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dirtybus.gate.policy import DropReason

__all__ = ["LockerSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LockerSnapshot:
    """A `ProcessLocker` at one moment. ``free + running == limit``, unless there is no limit.

    ``suspended`` trees have lent their slot or wait to have it back; ``pending`` executions are held, the first of
    them for ``oldest_held_s`` seconds.
    """

    opened: bool
    draining: bool
    limit: int | None
    free: int | None
    running: int
    suspended: int
    pending: int
    oldest_held_s: float | None
    counters: Mapping[str, int]

    @property
    def dropped(self) -> int:
        """Executions dropped so far, whatever the reason."""
        return sum(self.counters[f"dropped_{reason.value}"] for reason in DropReason)

    def __repr__(self) -> str:
        gate = "draining" if self.draining else "open" if self.opened else "shut"
        bound = "" if self.limit is None else f" of {self.limit}"
        rest = {"suspended": self.suspended, "dropped": self.dropped}
        more = "".join(f", {count} {name}" for name, count in rest.items() if count)
        return f"<ProcessLocker {gate}, {self.running}{bound} running, {self.pending} held{more}>"
