"""Which workers are worn: they have served long enough, or take too much memory. Replaces nobody itself."""

from __future__ import annotations

from collections.abc import Mapping

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import Worker, WorkerId
from dirtybus.pool.ranking import Ranking
from dirtybus.pool.restarts import Jitter

__all__ = ["Recycling"]

#: by how much of it an age may be put off
_AGE_SPREAD = 0.1


class Recycling:
    """Counts calls, ages and memory of ready workers against the settings. Each call counts once, whatever its end."""

    def __init__(self, config: DirtyConfig, jitter: Jitter | None) -> None:
        self._limits = config.recycle
        self._jitter = jitter or (lambda: 0.0)
        self._ages: Ranking[WorkerId] = Ranking()
        self._left: dict[WorkerId, int] = {}
        self._worn: dict[WorkerId, str] = {}

    def reconfigure(self, config: DirtyConfig) -> None:
        """Go by other limits for the workers that become ready from now on, and for memory."""
        self._limits = config.recycle

    @property
    def worn(self) -> Mapping[WorkerId, str]:
        """The workers that are to be replaced, the first one first, and why, in words."""
        return self._worn

    def note_ready(self, worker: WorkerId, now: float) -> None:
        """Draw the worker's own limits."""
        limits = self._limits
        if limits.max_requests is not None:
            self._left[worker] = limits.max_requests + round(limits.max_requests_jitter * self._jitter())
        if limits.max_age_s is not None:
            self._ages.put(worker, now + limits.max_age_s * (1.0 + _AGE_SPREAD * self._jitter()))

    def note_end(self, worker: WorkerId) -> None:
        """Count a call that the worker had the last word on."""
        left = self._left.get(worker)
        if left is not None:
            self._left[worker] = left - 1
            if left == 1:
                self._wear(worker, "it had its number of calls (max_requests)")

    def note_memory(self, worker: Worker, size: int) -> bool:
        """Compare what the worker takes; returns whether it is to be killed at once."""
        limits = self._limits
        if limits.hard_memory_bytes is not None and size > limits.hard_memory_bytes:
            return True
        if limits.soft_memory_bytes is not None and size > limits.soft_memory_bytes:
            self._wear(worker.id, f"it takes {size} bytes (soft_memory is {limits.soft_memory_bytes})")
        return False

    def pass_time(self, now: float) -> None:
        """Book those that have reached their age."""
        for worker in self._ages.take_until(now):
            self._wear(worker, "it reached its age (max_age)")

    def next_at(self) -> float | None:
        """Return when the next one reaches its age."""
        return self._ages.first_rank()

    def forget(self, worker: WorkerId) -> None:
        """The worker leaves, or is gone."""
        self._ages.drop(worker)
        self._left.pop(worker, None)
        self._worn.pop(worker, None)

    def _wear(self, worker: WorkerId, why: str) -> None:
        self._worn.setdefault(worker, why)
