"""The books of all calls: accepted once, settled once, balanced at every moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dirtybus.errors import CallCancelled, DirtyError, DirtyTimeoutError, Unavailable, WorkerLost

__all__ = ["Ledger"]


@dataclass(slots=True)
class Ledger:
    """Count what became of the calls. ``late`` counts words on calls that were settled already: dropped."""

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    refused: int = 0
    lost: int = 0
    open: int = 0
    late: int = 0

    def accept(self) -> None:
        """Book a new call."""
        self.submitted += 1
        self.open += 1

    def settle(self, error: DirtyError | None) -> None:
        """Book the one outcome of an open call."""
        self.open -= 1
        match error:
            case None:
                self.succeeded += 1
            case DirtyTimeoutError():
                self.expired += 1
            case CallCancelled():
                self.cancelled += 1
            case WorkerLost():
                self.lost += 1
            case Unavailable():
                self.refused += 1
            case _:
                self.failed += 1

    def check(self) -> None:
        """Raise AssertionError when the books do not balance."""
        settled = self.succeeded + self.failed + self.cancelled + self.expired + self.refused + self.lost
        assert self.open >= 0, f"more calls were settled than accepted: {self}"
        assert self.submitted == settled + self.open, f"the ledger does not balance: {self}"

    def as_mapping(self) -> Mapping[str, int]:
        """Return the books as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}
