"""Who watches over workers that have calls in them: are they alive, or only there? Kills nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from dirtybus.arbiter.roll import WorkerRecord

__all__ = ["Vigil"]

#: looks within the timeout; so one that comes late, because the owner was busy or asleep, proves nothing
_LOOKS = 3


class Vigil:
    """Ask busy workers for a sign of life, and tell of those that gave none for as long as the timeout.

    While no worker has a call there is no timer.

    Args:
        workers: all of them, at each look.
        timeout_s: how long one may be silent; None: as long as it likes.
        on_silence: told of each silent worker, at each look.
    """

    def __init__(
        self,
        workers: Iterable[WorkerRecord],
        timeout_s: float | None,
        on_silence: Callable[[WorkerRecord], object],
    ) -> None:
        self._workers = workers
        self._on_silence = on_silence
        self.set_timeout(timeout_s)
        self._next: asyncio.TimerHandle | None = None

    def set_timeout(self, timeout_s: float | None) -> None:
        """Have another timeout from the next look on."""
        self._interval_s = timeout_s / _LOOKS if timeout_s else None

    def begin(self) -> None:
        """Watch from now on, until no worker has a call any more. May be called twice."""
        if self._next is None and self._interval_s is not None:
            self._next = asyncio.get_running_loop().call_later(self._interval_s, self._look)

    def end(self) -> None:
        """Look no more. May be called twice."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _look(self) -> None:
        self._next = None
        busy = [record for record in self._workers if record.calls and record.child is not None]
        if busy:
            self.begin()
        for record in busy:
            self._feel(record)

    def _feel(self, record: WorkerRecord) -> None:
        assert record.child is not None
        if record.child.had_pulse():
            record.unanswered = 0
        if record.unanswered >= _LOOKS:
            self._on_silence(record)
            return
        if not record.unanswered:
            record.child.feel_pulse()
        record.unanswered += 1
