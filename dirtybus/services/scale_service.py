"""ScaleService: watches the load, and asks on the bus for the workers that it needs. Must never resize anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from graia.broadcast import Broadcast

from dirtybus.config import DirtyConfig
from dirtybus.events import ReloadEnded, ScaleRequested
from dirtybus.pool.target import Load, TargetTracking
from dirtybus.services.base import DirtyService
from dirtybus.services.news import listening

__all__ = ["Loaded", "ScaleService", "memory_in_use"]


class Loaded(Protocol):
    """Whoever knows the load."""

    @property
    def config(self) -> DirtyConfig: ...

    @property
    def on_work(self) -> Callable[[], object] | None:
        """Told, in the loop, when a worker was sent a call."""

    @on_work.setter
    def on_work(self, tell: Callable[[], object] | None) -> None: ...

    def load(self, memory: float) -> Load:
        """Return what is going on."""


class ScaleService(DirtyService):
    """Posts a `ScaleRequested` whenever the policy of the settings wants another number of workers.

    While there is nothing to do and nobody more than the least, it sleeps until a worker is sent a call; else it looks
    once in each ``scaling.interval_s``. Whoever wants another decision listens to the event before it is carried out,
    and stops it or posts one of his own.

    Args:
        arbiter: knows the load, and the settings of now: a reload may change them.
        broadcast: the bus.
        memory: returns which share of the machine's memory is in use.
    """

    id = "dirtybus.scaling"
    requires = frozenset({"dirtybus.workers"})

    def __init__(self, arbiter: Loaded, broadcast: Broadcast, memory: Callable[[], float] | None = None) -> None:
        super().__init__()
        self._arbiter = arbiter
        self._broadcast = broadcast
        self._memory = memory or memory_in_use
        self._work = asyncio.Event()
        self._policy: TargetTracking | None = None

    async def watch(self) -> None:
        self._work = asyncio.Event()
        self._take_up()
        with listening(self._broadcast, ReloadEnded, self._note_reload):
            while True:
                await self._work.wait()
                if self._policy is None or self._look(self._policy):
                    self._work.clear()
                else:
                    await asyncio.sleep(self._arbiter.config.scaling.interval_s)

    def _look(self, policy: TargetTracking) -> bool:
        """Look once; returns whether there is nothing to look at until the next call."""
        load = self._arbiter.load(self._memory())
        if advice := policy.look(load):
            self._broadcast.postEvent(ScaleRequested(advice.workers, why=advice.why))
        return not load.busy and not load.queued and load.size <= policy.least

    async def _note_reload(self, event: ReloadEnded) -> None:
        if event.error is None:
            self._take_up()

    def _take_up(self) -> None:
        """Go by the settings of now."""
        config = self._arbiter.config
        self._policy = None
        if config.pool_size is not None and config.scaling.policy == "target":
            self._policy = TargetTracking(config.scaling, *config.pool_size)
            self._work.set()
        # without a policy, no call costs anything here
        self._arbiter.on_work = None if self._policy is None else self._work.set

    def kill(self) -> None:
        self._arbiter.on_work = None


def memory_in_use() -> float:
    """Return which share of the machine's memory is in use; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return 1.0 - sizes["MemAvailable"] / sizes["MemTotal"]
    except (OSError, ValueError, KeyError, IndexError, ZeroDivisionError):
        return 0.0
