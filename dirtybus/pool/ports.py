"""The pool's two ports: facts (what happened, in the past tense) and orders (what to do about it)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool.model import Call, CallId, Refusal, WorkerId

__all__ = [
    "AdmissionClosed",
    "BootFailed",
    "Bounded",
    "CancelRequested",
    "Cause",
    "CommitReload",
    "Dispatch",
    "DrainBegun",
    "Exited",
    "Fact",
    "Finished",
    "Interrupt",
    "Kill",
    "KillReason",
    "Measured",
    "Order",
    "Ready",
    "Refuse",
    "ReloadBegun",
    "ReportCircuit",
    "ReportDrained",
    "ReportReload",
    "Resized",
    "Retire",
    "RunBatch",
    "Spawn",
    "Streamed",
    "Submitted",
    "Ticked",
    "Unresponsive",
]

# --- facts --------------------------------------------------------------------------------------------------------


class Submitted(msgspec.Struct, frozen=True):
    """A caller handed in a call."""

    call: Call


class CancelRequested(msgspec.Struct, frozen=True):
    """The caller gave up. Ignored when the call has its outcome already."""

    call: CallId


class Streamed(msgspec.Struct, frozen=True):
    """The first chunk of a call reached its caller: from now on it may not be run again."""

    call: CallId


class Finished(msgspec.Struct, frozen=True):
    """The worker sent the last word on a call, whatever it was; the slot is free."""

    worker: WorkerId
    call: CallId


class Ready(msgspec.Struct, frozen=True):
    """The worker initialised all its apps."""

    worker: WorkerId


class BootFailed(msgspec.Struct, frozen=True):
    """The worker said that it cannot boot; its exit will follow."""

    worker: WorkerId


class Exited(msgspec.Struct, frozen=True):
    """The worker's process is gone. ``unbegun`` are calls in it that it certainly did not begin.

    ``blamed`` are the apps whose doing its end was, as far as that is known; else all of its apps are suspect.
    """

    worker: WorkerId
    unbegun: frozenset[CallId] = frozenset()
    blamed: tuple[str, ...] = ()


class Unresponsive(msgspec.Struct, frozen=True):
    """The worker's process is there and gives no sign of life."""

    worker: WorkerId


class Measured(msgspec.Struct, frozen=True):
    """The worker's process takes so many bytes of memory for itself."""

    worker: WorkerId
    size: int


class Resized(msgspec.Struct, frozen=True):
    """Somebody wants another number of workers; of one app, where each worker holds one."""

    size: int
    app: str | None = None


class Bounded(msgspec.Struct, frozen=True):
    """Somebody wants an elastic pool to go by other limits."""

    least: int
    most: int


class ReloadBegun(msgspec.Struct, frozen=True):
    """Replace every worker, and go by other settings and apps once the first new one is ready.

    ``generation`` is larger than any before; ``size`` is the number of workers then, and the specs have to fit on it.
    """

    generation: int
    config: DirtyConfig
    specs: tuple[AppSpec, ...]
    size: int
    threads_by_app: Mapping[str, int] = {}


class AdmissionClosed(msgspec.Struct, frozen=True):
    """A drain is near: end the calls that it would not wait for, now and from now on."""


class DrainBegun(msgspec.Struct, frozen=True):
    """Take nothing new; what is not done by ``deadline`` is cut."""

    deadline: float


class Ticked(msgspec.Struct, frozen=True):
    """Time passed."""


Fact = (
    Submitted
    | CancelRequested
    | Streamed
    | Finished
    | Ready
    | BootFailed
    | Exited
    | Measured
    | Resized
    | Bounded
    | ReloadBegun
    | Unresponsive
    | AdmissionClosed
    | DrainBegun
    | Ticked
)

# --- orders -------------------------------------------------------------------------------------------------------


class KillReason(enum.Enum):
    """Why a worker is killed; the sentence for logs and errors."""

    BOOT_TIMEOUT = "it did not finish booting within boot_timeout"
    STUCK = "a call went on after its deadline or cancel and the grace"
    HEARTBEAT = "it gave no sign of life within heartbeat_timeout"
    MEMORY = "it took more memory than hard_memory allows"
    RETIRE_TIMEOUT = "it did not leave within graceful_timeout"
    DRAIN_DEADLINE = "the drain deadline passed"


class Cause(enum.Enum):
    """What is behind a refusal whose kind alone does not say it."""

    QUEUE_TIMEOUT = "it waited for queue_timeout and was not started"
    DROPPED = "a newer call took its place in the full queue"


class Spawn(msgspec.Struct, frozen=True):
    """Start a process that holds these apps. ``generation`` counts the reloads so far: whose settings it is to have."""

    worker: WorkerId
    apps: tuple[str, ...]
    generation: int = 0


class Dispatch(msgspec.Struct, frozen=True):
    """Send the call to the worker; ``attempt`` counts from 1. One of a ``batch`` is to wait there for `RunBatch`."""

    worker: WorkerId
    call: CallId
    attempt: int
    batch: CallId | None = None


class RunBatch(msgspec.Struct, frozen=True):
    """Tell the worker that it has all calls of the batch, to run as one. A batch is named after its first call."""

    worker: WorkerId
    batch: CallId


class Interrupt(msgspec.Struct, frozen=True):
    """Tell the worker that nobody waits for the call any more."""

    worker: WorkerId
    call: CallId


class Refuse(msgspec.Struct, frozen=True):
    """Tell the caller that there will be no result. ``worker`` is set when one had it; ``attempts`` counts runs.

    ``retry_after_s`` is set when the queue is full: the guess of when those that wait now will have been started.
    """

    call: CallId
    why: Refusal
    worker: WorkerId | None = None
    attempts: int = 0
    cause: Cause | None = None
    retry_after_s: float | None = None


class Retire(msgspec.Struct, frozen=True):
    """Tell the worker to close its apps and leave; it has no calls."""

    worker: WorkerId


class Kill(msgspec.Struct, frozen=True):
    """End the process now."""

    worker: WorkerId
    why: KillReason


class CommitReload(msgspec.Struct, frozen=True):
    """The first worker of the generation is ready: its settings and apps hold from now on."""

    generation: int


class ReportReload(msgspec.Struct, frozen=True):
    """The reload is over. Not done: because ``lost`` did not boot, or, without one, because of a drain."""

    generation: int
    lost: WorkerId | None = None
    is_done: bool = True


class ReportCircuit(msgspec.Struct, frozen=True):
    """The workers of the app failed too often, or one of them is ready again."""

    app: str
    is_open: bool


class ReportDrained(msgspec.Struct, frozen=True):
    """Nothing is left: no call, no worker."""


Order = (
    Spawn
    | Dispatch
    | RunBatch
    | Interrupt
    | Refuse
    | Retire
    | Kill
    | CommitReload
    | ReportReload
    | ReportCircuit
    | ReportDrained
)
