"""The arbiter's record of each worker process: the child, what it printed last, how it booted and ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.ledger import Entry
from dirtybus.arbiter.spawner import Child
from dirtybus.errors import BootFailed as BootFailedError
from dirtybus.errors import DirtyError
from dirtybus.pool.model import CallId, WorkerId
from dirtybus.pool.ports import KillReason
from dirtybus.protocol.heads import BootFailed, Booting

__all__ = ["WorkerRecord"]

#: enough for the stacks of a worker in which an import hangs
_LAST_LINES = 60
#: why a worker goes although nothing is wrong with it
_IN_ORDER = frozenset({KillReason.RETIRE_TIMEOUT, KillReason.DRAIN_DEADLINE})


@dataclass(slots=True)
class WorkerRecord:
    """One worker process. ``child`` is None until the process exists; ``report`` is its own word on a failed boot.

    ``step`` is the last step of its boot that it began, ``step_after_s`` after its start.
    """

    id: WorkerId
    apps: tuple[str, ...]
    started_at: float
    child: Child | None = None
    boot_s: float | None = None
    killed_for: KillReason | None = None
    #: it was told to leave
    is_retired: bool = False
    #: what went wrong with it, once it is gone
    went_wrong: DirtyError | None = None
    #: the whole crew was ended at once
    is_dismissed: bool = False
    step: Booting | None = None
    step_after_s: float = 0.0
    report: BootFailed | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    #: the calls in it, those too whose caller was told already
    calls: dict[CallId, Entry] = field(default_factory=dict)
    answered: int = 0
    #: how many looks in a row have found no answer to the question whether it lives
    unanswered: int = 0
    #: told when the process is gone
    when_gone: list[Callable[[], object]] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process id, or 0 while there is none."""
        return 0 if self.child is None else self.child.pid

    @property
    def stash_caller(self) -> tuple[str, int]:
        """Who it is to the stash: what it holds there is free when it ends."""
        return "worker", self.id

    def unbegun(self) -> frozenset[CallId]:
        """Return the calls in it that its process certainly did not begin; to be asked when it is gone."""
        if self.child is None:
            return frozenset(self.calls)
        return frozenset(call for call in self.calls if not self.child.was_begun(call))

    def note_step(self, step: Booting, now: float) -> None:
        """Book that the worker begins a step of its boot."""
        self.step, self.step_after_s = step, now - self.started_at

    def blamed(self) -> tuple[str, ...]:
        """Return the apps that its end is to be held against; to be asked when it is gone, and not in a drain.

        While it booted that is the app of the last step, or each of its apps when the step was no app's; afterwards,
        the apps of the calls that had begun in it. Nobody's is an end that was ordered, and a process that never was.
        """
        if self.child is None or self.is_dismissed or self.killed_for in _IN_ORDER:
            return ()
        if self.boot_s is None:
            step = self.report or self.step
            return self.apps if step is None or step.app is None else (step.app,)
        unbegun = self.unbegun()
        return tuple(dict.fromkeys(entry.app for call, entry in self.calls.items() if call not in unbegun))

    def why_gone(self, status: ExitStatus) -> str:
        """Return the reason of its end as a sentence."""
        if self.report is not None:
            return f"it could not boot ({self.report.step} of {self.report.app or 'the worker'})"
        if self.is_dismissed:
            return "the arbiter was stopped at once"
        if self.killed_for is not None:
            return f"killed because {self.killed_for.value}"
        if self.is_retired:
            return "it was told to leave"
        return str(status)

    def failure(self, status: ExitStatus, took_s: float) -> DirtyError:
        """Return what went wrong with a worker that ended ``took_s`` after its start: its boot, or else its work."""
        if self.boot_s is None:
            return self.boot_error(status, took_s)
        details = {
            "worker": self.id,
            "step": "running",
            "duration_s": took_s,
            "exit_code": status.code,
            "signal": status.signal,
            "stderr": list(self.lines),
        }
        return DirtyError(f"worker {self.id} died {took_s:.1f} s after its start: {self.why_gone(status)}", details)

    def boot_error(self, status: ExitStatus, took_s: float) -> BootFailedError:
        """Return the boot report of a worker that ended ``took_s`` after its start, before it was ready."""
        details: dict[str, Any] = {
            "worker": self.id,
            "apps": list(self.apps),
            "exit_code": status.code,
            "signal": status.signal,
            "stderr": list(self.lines),
        }
        if self.report is None:
            step, cause, error = "boot" if self.step is None else self.step.step, self.why_gone(status), None
            app = None if self.step is None else self.step.app
            details.update(step=step, app=app, duration_s=took_s - self.step_after_s)
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
