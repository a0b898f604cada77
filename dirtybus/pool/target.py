"""Target tracking: how many workers keep the load at the share of their time that they are meant to be busy.

Pure, with the time in each observation. The demand is the number of calls that run and wait (Little's law: arrivals per
second times seconds of work); it is averaged over a short and a long window, so that the number goes up soon and down
late. Steps of one kind keep their distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dirtybus.config import ScalingConfig
from dirtybus.pool.snapshot import PoolSnapshot

__all__ = ["Advice", "Load", "TargetTracking", "load_of"]

#: of the window, what going up looks at
_SHORT = 0.1
#: how much lower the load must be than what the number is good for, before one goes
_BAND = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is going on at a moment: ``size`` workers are aimed at, which run ``threads`` calls each.

    ``busy`` is how many of those slots are taken, ``queued`` how many calls wait, ``memory`` which share of the
    machine's memory is in use.
    """

    at: float
    size: int
    threads: int
    busy: int
    queued: int
    memory: float = 0.0


def load_of(snapshot: PoolSnapshot | None, threads: int, at: float, memory: float) -> Load:
    """Return the load that a snapshot shows; None is a pool that was not started."""
    if snapshot is None:
        return Load(at=at, size=0, threads=threads, busy=0, queued=0, memory=memory)
    return Load(
        at=at,
        size=snapshot.size,
        threads=threads,
        busy=sum(min(len(worker.running), threads) for worker in snapshot.workers),
        queued=sum(snapshot.queued.values()),
        memory=memory,
    )


@dataclass(frozen=True, slots=True)
class Advice:
    """So many workers are wanted, and why, in words."""

    workers: int
    why: str


class TargetTracking:
    """Turns observations into advice, or none when the number is right.

    Args:
        config: the target, the windows and the distances between steps.
        least, most: the limits of the advice.
    """

    def __init__(self, config: ScalingConfig, least: int, most: int) -> None:
        self._config = config
        self.least, self._most = least, most
        self._at: float | None = None
        self._short = self._long = 0.0
        self._up_at = self._stepped_at = -math.inf

    def look(self, load: Load) -> Advice | None:
        """Take an observation; return what to do about it."""
        self._average(load)
        slots = load.threads * self._config.target_busy
        up = self._bounded(self._short / slots)
        # what is there may go only when the load of the whole window would leave some air in one worker less
        down = self._bounded(self._long * (1.0 + _BAND) / slots)
        if up > load.size:
            return self._go_up(load, up)
        if max(up, down) < load.size:
            return self._go_down(load, max(up, down))
        return None

    def _average(self, load: Load) -> None:
        demand = float(load.busy + load.queued)
        span = math.inf if self._at is None else max(0.0, load.at - self._at)
        self._at = load.at
        window = self._config.window_s
        self._short += (demand - self._short) * (1.0 - math.exp(-span / (window * _SHORT)))
        self._long += (demand - self._long) * (1.0 - math.exp(-span / window))

    def _bounded(self, workers: float) -> int:
        # a load that fades never quite ends: what is left of it after ten windows is none
        return min(max(math.ceil(workers - 1e-3), self.least), self._most)

    def _go_up(self, load: Load, wanted: int) -> Advice | None:
        if load.at < self._up_at + self._config.up_cooldown_s or load.memory >= self._config.max_memory:
            return None
        self._up_at = self._stepped_at = load.at
        return Advice(wanted, f"{self._short:.1f} calls at a time need {wanted} workers at {self._share()}")

    def _go_down(self, load: Load, wanted: int) -> Advice | None:
        if load.at < self._stepped_at + self._config.down_cooldown_s:
            return None
        self._stepped_at = load.at
        wanted = max(wanted, load.size // 2)  # a pause is no end: half at a time
        return Advice(wanted, f"{self._long:.1f} calls at a time need no more than {wanted} workers at {self._share()}")

    def _share(self) -> str:
        return f"{self._config.target_busy:.0%} of their time"
