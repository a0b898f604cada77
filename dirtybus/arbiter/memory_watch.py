"""Who looks at how much memory the workers take. Kills and replaces nobody."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from dirtybus import log
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.pool.model import WorkerId

__all__ = ["MemoryWatch", "own_bytes"]

#: a worker that grows by a gigabyte a second is found before most machines are full
_INTERVAL_S: Final = 0.5
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Measure the workers that had a call since the last look, and tell what they take.

    While no worker has a call there is no timer.

    Args:
        workers: all of them, at each look.
        on_measured: told the bytes of each.
    """

    def __init__(self, workers: Iterable[WorkerRecord], on_measured: Callable[[WorkerRecord, int], object]) -> None:
        self._workers = workers
        self._on_measured = on_measured
        self._next: asyncio.TimerHandle | None = None
        self._is_wanted = False
        #: how many calls each had answered at the last look
        self._looked_at: dict[WorkerId, int] = {}

    def want(self, *, is_wanted: bool) -> None:
        """Begin to look at the next call, or look no more."""
        self._is_wanted = is_wanted and _can_measure()
        if not self._is_wanted:
            self.end()

    def begin(self) -> None:
        """Look from now on, until no worker has a call any more. May be called twice."""
        if self._is_wanted and self._next is None:
            self._next = asyncio.get_running_loop().call_later(_INTERVAL_S, self._look)

    def end(self) -> None:
        """Look no more. May be called twice."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _look(self) -> None:
        self._next = None
        workers = [record for record in self._workers if record.child is not None]
        if any(record.calls for record in workers):
            self.begin()
        for record in workers:
            # one more look at those that have just become idle: what a call left behind is there to stay
            if record.calls or record.answered != self._looked_at.get(record.id):
                self._looked_at[record.id] = record.answered
                if (size := own_bytes(record.pid)) is not None:
                    self._on_measured(record, size)
        self._looked_at = {record.id: self._looked_at.get(record.id, -1) for record in workers}


def own_bytes(pid: int) -> int | None:
    """Return how much memory a process has for itself, in bytes: resident pages without the shared ones.

    None when it is gone. Pages that were never written since a fork are shared, and do not count.
    """
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_bytes().split()
    except (OSError, ValueError):
        return None
    return (int(resident) - int(shared)) * _PAGE_BYTES


def _can_measure() -> bool:
    if Path("/proc/self/statm").exists():
        return True
    log.logger.warning("soft_memory and hard_memory need /proc, which this system does not have: nobody will look")
    return False
