"""The books of all calls: accepted once, settled once, balanced at every moment. Knows no payload and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dirtybus.errors import CallCancelled, DirtyError, DirtyTimeoutError, Unavailable, WorkerLost
from dirtybus.pool.model import CallId

__all__ = ["OUTCOMES", "Entry", "Ledger"]

#: how many settled calls are remembered one by one; the counts know them all
_REMEMBERED: Final = 1000
#: what becomes of a call; each one becomes exactly one of these
OUTCOMES: Final = ("succeeded", "failed", "cancelled", "expired", "refused", "lost")


class Entry(msgspec.Struct, gc=False):
    """One call in the books. Moments are on the clock of the owner's event loop, and None until they come.

    ``attempts`` is how many times it was sent to a worker, ``started_at`` when first, ``runs_since`` when last.
    ``outcome`` is the name of the count that it is in; None while it is open.
    """

    id: CallId
    app: str
    action: str
    accepted_at: float
    attempts: int = 0
    started_at: float | None = None
    runs_since: float | None = None
    settled_at: float | None = None
    outcome: str | None = None

    def start(self, attempt: int, now: float) -> None:
        """Book that it is sent to a worker."""
        self.attempts = attempt
        self.runs_since = now
        if self.started_at is None:
            self.started_at = now


class Ledger:
    """Count what became of the calls, and remember the open ones and the last thousand that are settled.

    ``late`` counts words on calls that were settled already: dropped.
    """

    def __init__(self) -> None:
        self.submitted = 0
        self.succeeded = 0
        self.failed = 0
        self.cancelled = 0
        self.expired = 0
        self.refused = 0
        self.lost = 0
        self.late = 0
        self._open: dict[CallId, Entry] = {}
        self._settled: deque[Entry] = deque(maxlen=_REMEMBERED)

    @property
    def open(self) -> int:
        """How many calls have no outcome yet."""
        return len(self._open)

    def accept(self, call_id: CallId, app: str, action: str, now: float) -> Entry:
        """Book a new call."""
        self.submitted += 1
        entry = self._open[call_id] = Entry(call_id, app, action, now)
        return entry

    def settle(self, call_id: CallId, error: DirtyError | None, now: float) -> None:
        """Book the one outcome of an open call. Raises KeyError when it has one: a defect of whoever calls."""
        entry = self._open.pop(call_id)
        entry.settled_at = now
        entry.outcome = self._count(error)
        self._settled.append(entry)

    def open_entries(self) -> Sequence[Entry]:
        """Return the calls without an outcome, the oldest first."""
        return tuple(self._open.values())

    def entries(self) -> Sequence[Entry]:
        """Return the last thousand settled calls in the order of their ends, then the open ones, the oldest first."""
        return (*self._settled, *self._open.values())

    def oldest_s(self, now: float) -> float | None:
        """Return for how long the oldest open call has been so; None when there is none."""
        oldest = next(iter(self._open.values()), None)
        return None if oldest is None else now - oldest.accepted_at

    def check(self) -> None:
        """Raise AssertionError when the books do not balance."""
        settled = sum(getattr(self, outcome) for outcome in OUTCOMES)
        assert self.submitted == settled + self.open, f"the ledger does not balance: {self}"
        for entry in self._open.values():
            assert entry.outcome is None, f"an open call has an outcome: {entry}"
        assert all(entry.outcome in OUTCOMES for entry in self._settled), "a settled call has no outcome"

    def as_mapping(self) -> Mapping[str, int]:
        """Return the counts as plain values."""
        return {name: getattr(self, name) for name in ("submitted", *OUTCOMES, "open", "late")}

    def __repr__(self) -> str:
        return f"<Ledger {', '.join(f'{count} {name}' for name, count in self.as_mapping().items())}>"

    def _count(self, error: DirtyError | None) -> str:
        match error:
            case None:
                self.succeeded += 1
                return "succeeded"
            case DirtyTimeoutError():
                self.expired += 1
                return "expired"
            case CallCancelled():
                self.cancelled += 1
                return "cancelled"
            case WorkerLost():
                self.lost += 1
                return "lost"
            case Unavailable():
                self.refused += 1
                return "refused"
        self.failed += 1
        return "failed"
