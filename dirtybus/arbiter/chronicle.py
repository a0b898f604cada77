"""What the log and the bus are told of the lives of workers and the health of apps. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from dirtybus import log
from dirtybus.arbiter.breakage import Breakage
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.config import DirtyConfig
from dirtybus.events import CircuitClosed, CircuitOpened, LifecycleEvent, WorkerExited, WorkerReady, WorkerSpawned

__all__ = ["Chronicle"]


class Chronicle:
    """Tell of each change once, and remember how each app's workers failed last.

    Args:
        observe: told of each change, in the loop's thread.
    """

    def __init__(self, observe: Callable[[LifecycleEvent], object]) -> None:
        self.breakage = Breakage()
        self._observe = observe

    def born(self, record: WorkerRecord) -> None:
        """The worker's process exists."""
        self._observe(WorkerSpawned(record.id, record.pid, record.apps))

    def ready(self, record: WorkerRecord, boot_s: float) -> None:
        """It takes work."""
        bound = log.logger.bind(worker=record.id, pid=record.pid, apps=record.apps)
        bound.info("worker {} is ready after {:.2f} s (pid {})", record.id, boot_s, record.pid)
        self._observe(WorkerReady(record.id, record.pid, record.apps, boot_s))

    def gone(self, record: WorkerRecord, status: ExitStatus) -> None:
        """It is gone; what went wrong with it stands in the record."""
        why = record.why_gone(status)
        if record.went_wrong is not None and not (record.is_retired or record.is_dismissed):
            self.breakage.note(record.blamed() or record.apps, record.went_wrong)
        bound = log.logger.bind(worker=record.id, pid=record.pid, exit_code=status.code, signal=status.signal)
        if status.code == 0 or record.is_dismissed or (record.is_retired and record.killed_for is None):
            bound.info("worker {} left", record.id)
        elif record.boot_s is None:
            bound.error("{}", record.went_wrong)
        else:
            bound.warning("worker {} died with {} calls in it: {}", record.id, len(record.calls), why)
        self._observe(
            WorkerExited(record.id, record.pid, record.apps, exit_code=status.code, signal=status.signal, reason=why)
        )

    def circuit(self, app: str, config: DirtyConfig, *, is_open: bool) -> None:
        """The circuit of an app was opened or closed."""
        bound = log.logger.bind(app=app)
        if is_open:
            error = self.breakage.error(app, config)
            bound.error("{}", error)
            self._observe(CircuitOpened(app, error))
        else:
            bound.info("{} works again: its calls are taken", app)
            self._observe(CircuitClosed(app))
