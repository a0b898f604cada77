"""What became of the demo's events, counted as it is told. Time is an argument; knows neither bus nor screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dirtybus.errors import Unavailable

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """The books of one demo. ``posted`` events end as ``answered``, ``refused`` (told to try later) or ``failed``.

    Attributes:
        posted_early: how many were posted while no worker was ready.
        ready: pid by the number of each worker that was ever ready.
        by_pid: how many files each worker judged.
        errors: one message for each kind of failure.
    """

    posted: int = 0
    posted_early: int = 0
    answered: int = 0
    refused: int = 0
    failed: int = 0
    files_done: int = 0
    opened_at: float | None = None
    last_file_at: float | None = None
    ready: dict[int, int] = field(default_factory=dict)
    by_pid: Counter[int] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)

    def post(self) -> None:
        """One more event was posted."""
        self.posted += 1
        self.posted_early += not self.ready

    def note_ready(self, worker: int, pid: int) -> None:
        """A worker takes work from now on."""
        self.ready[worker] = pid

    def note_open(self, now: float) -> None:
        """All was prepared: held events run from now on."""
        self.opened_at = now

    def answer(self) -> None:
        """An event was answered."""
        self.answered += 1

    def answer_file(self, pid: int, now: float) -> None:
        """An event that asks for a file was answered by that worker."""
        self.answer()
        self.files_done += 1
        self.by_pid[pid] += 1
        self.last_file_at = now

    def fail(self, error: BaseException) -> None:
        """An event ended without an answer."""
        if isinstance(error, Unavailable):
            self.refused += 1
        else:
            self.failed += 1
        self.errors.setdefault(type(error).__name__, str(error))

    @property
    def settled(self) -> int:
        return self.answered + self.refused + self.failed

    @property
    def is_complete(self) -> bool:
        """Whether every event was answered."""
        return self.answered == self.posted

    @property
    def span_s(self) -> float:
        """How long the files took, from when they could run to the last answer."""
        if self.opened_at is None or self.last_file_at is None:
            return 0.0
        return self.last_file_at - self.opened_at

    @property
    def files_per_s(self) -> float:
        return self.files_done / self.span_s if self.span_s > 0 else 0.0

    def by_worker(self) -> Mapping[int, int]:
        """Return how many files each worker judged, by its number."""
        return {worker: self.by_pid[pid] for worker, pid in sorted(self.ready.items())}
