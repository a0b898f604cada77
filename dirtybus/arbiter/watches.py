"""All who look after workers with calls in them, as one: for signs of life, and for memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dirtybus.arbiter.memory_watch import MemoryWatch
from dirtybus.arbiter.restart_files import RestartFiles
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.vigil import Vigil
from dirtybus.config import DirtyConfig
from dirtybus.pool import ports

__all__ = ["Watches"]


class Watches:
    """Tell the pool what is found. While no worker has a call there is no timer.

    Args:
        workers: all of them, at each look.
        feed: takes the facts.
    """

    def __init__(self, workers: Iterable[WorkerRecord], feed: Callable[[ports.Fact], object]) -> None:
        self._vigil = Vigil(workers, None, lambda record: feed(ports.Unresponsive(record.id)))
        self._memory = MemoryWatch(workers, lambda record, size: feed(ports.Measured(record.id, size)))
        #: told of each call that a worker was sent
        self.on_work: Callable[[], object] | None = None
        #: likewise; it looks for files that ask for a reload
        self.restarts: RestartFiles | None = None

    def heed(self, config: DirtyConfig) -> None:
        """Go by these settings from the next look on."""
        self._vigil.set_timeout(config.heartbeat_timeout_s)
        if self.restarts is not None:
            self.restarts.heed(config)
        self._memory.want(is_wanted=config.recycle.looks_at_memory)

    def begin(self) -> None:
        """Look from now on, until no worker has a call any more. May be called twice."""
        self._vigil.begin()
        self._memory.begin()
        if self.restarts is not None:
            self.restarts.note_call()
        if self.on_work is not None:
            self.on_work()

    def end(self) -> None:
        """Look no more. May be called twice."""
        self._vigil.end()
        self._memory.end()
