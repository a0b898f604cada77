"""The arbiter's record of each worker process: the child, what it printed last, how it booted and ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dirtybus.arbiter.spawner import Child, ExitStatus
from dirtybus.errors import BootFailed as BootFailedError
from dirtybus.errors import DirtyError
from dirtybus.pool.model import CallId, WorkerId
from dirtybus.pool.ports import KillReason
from dirtybus.protocol.messages import BootFailed

__all__ = ["WorkerRecord"]

_LAST_LINES = 20


@dataclass(slots=True)
class WorkerRecord:
    """One worker process. ``child`` is None until the process exists; ``report`` is its own word on a failed boot."""

    id: WorkerId
    apps: tuple[str, ...]
    started_at: float
    child: Child | None = None
    boot_s: float | None = None
    killed_for: KillReason | None = None
    #: the whole crew was ended at once
    is_dismissed: bool = False
    report: BootFailed | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    calls: set[CallId] = field(default_factory=set)
    answered: int = 0
    #: told when the process is gone
    when_gone: list[Callable[[], object]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process id, or 0 while there is none."""
        return 0 if self.child is None else self.child.pid

    def unbegun(self) -> frozenset[CallId]:
        """Return the calls in it that its process certainly did not begin; to be asked when it is gone."""
        if self.child is None:
            return frozenset(self.calls)
        return frozenset(call for call in self.calls if not self.child.was_begun(call))

    def why_gone(self, status: ExitStatus) -> str:
        """Return the reason of its end as a sentence."""
        if self.report is not None:
            return f"it could not boot ({self.report.step} of {self.report.app or 'the worker'})"
        if self.is_dismissed:
            return "the arbiter was stopped at once"
        if self.killed_for is not None:
            return f"killed because {self.killed_for.value}"
        return str(status)

    def boot_error(self, status: ExitStatus, took_s: float) -> BootFailedError:
        """Return the boot report of a worker that ended before it was ready."""
        details: dict[str, Any] = {
            "worker": self.id,
            "apps": list(self.apps),
            "exit_code": status.code,
            "signal": status.signal,
            "stderr": list(self.lines),
        }
        if self.report is None:
            step, cause, error = "boot", self.why_gone(status), None
            details.update(step=step, duration_s=took_s)
        else:
            error = DirtyError.from_dict(self.report.error)
            step, cause = self.report.step, str(error)
            details.update(_report_details(self.report))
        where = f" of {details['app']}" if details.get("app") else ""
        text = f"worker {self.id} could not start: {step}{where} failed after {details['duration_s']:.1f} s: {cause}"
        tail = "".join(f"\n  | {line}" for line in self.lines) if error is None else ""
        return BootFailedError(text + tail, details)


def _report_details(report: BootFailed) -> Mapping[str, Any]:
    error = report.error.get("details") or {}
    return {
        "step": report.step,
        "app": report.app,
        "duration_s": report.duration_s,
        "error_type": error.get("error_type"),
        "traceback": error.get("traceback"),
    }
