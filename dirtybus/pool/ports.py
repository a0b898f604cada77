"""The pool's two ports: facts (what happened, in the past tense) and orders (what to do about it)."""

from __future__ import annotations

import enum

import msgspec

from dirtybus.pool.model import Call, CallId, Refusal, WorkerId

__all__ = [
    "BootFailed",
    "CancelRequested",
    "Cause",
    "Dispatch",
    "DrainBegun",
    "Exited",
    "Fact",
    "Finished",
    "Interrupt",
    "Kill",
    "KillReason",
    "Order",
    "Ready",
    "Refuse",
    "ReportDrained",
    "Resized",
    "Retire",
    "Spawn",
    "Streamed",
    "Submitted",
    "Ticked",
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
    """The worker's process is gone. ``unbegun`` are calls in it that it certainly did not begin."""

    worker: WorkerId
    unbegun: frozenset[CallId] = frozenset()


class Resized(msgspec.Struct, frozen=True):
    """Somebody wants another number of workers."""

    size: int


class DrainBegun(msgspec.Struct, frozen=True):
    """Take nothing new; what is not done by ``deadline`` is cut."""

    deadline: float


class Ticked(msgspec.Struct, frozen=True):
    """Time passed."""


Fact = Submitted | CancelRequested | Streamed | Finished | Ready | BootFailed | Exited | Resized | DrainBegun | Ticked

# --- orders -------------------------------------------------------------------------------------------------------


class KillReason(enum.Enum):
    """Why a worker is killed; the sentence for logs and errors."""

    BOOT_TIMEOUT = "it did not finish booting within boot_timeout"
    STUCK = "a call went on after its deadline or cancel and the grace"
    RETIRE_TIMEOUT = "it did not leave within graceful_timeout"
    DRAIN_DEADLINE = "the drain deadline passed"


class Cause(enum.Enum):
    """What is behind a refusal whose kind alone does not say it."""

    QUEUE_TIMEOUT = "it waited for queue_timeout and was not started"
    DROPPED = "a newer call took its place in the full queue"


class Spawn(msgspec.Struct, frozen=True):
    """Start a process that holds these apps."""

    worker: WorkerId
    apps: tuple[str, ...]


class Dispatch(msgspec.Struct, frozen=True):
    """Send the call to the worker; ``attempt`` counts from 1."""

    worker: WorkerId
    call: CallId
    attempt: int


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


class ReportDrained(msgspec.Struct, frozen=True):
    """Nothing is left: no call, no worker."""


Order = Spawn | Dispatch | Interrupt | Refuse | Retire | Kill | ReportDrained
