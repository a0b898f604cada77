"""The pool's two ports: facts (what happened, in the past tense) and orders (what to do about it)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dirtybus.pool.model import Call, CallId, Refusal, WorkerId

__all__ = [
    "BootFailed",
    "CancelRequested",
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


@dataclass(frozen=True, slots=True)
class Submitted:
    """A caller handed in a call."""

    call: Call


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The caller gave up. Ignored when the call has its outcome already."""

    call: CallId


@dataclass(frozen=True, slots=True)
class Streamed:
    """The first chunk of a call reached its caller: from now on it may not be run again."""

    call: CallId


@dataclass(frozen=True, slots=True)
class Finished:
    """The worker sent the last word on a call, whatever it was; the slot is free."""

    worker: WorkerId
    call: CallId


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker initialised all its apps."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class BootFailed:
    """The worker said that it cannot boot; its exit will follow."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Exited:
    """The worker's process is gone. ``unbegun`` are calls in it that it certainly did not begin."""

    worker: WorkerId
    unbegun: frozenset[CallId] = frozenset()


@dataclass(frozen=True, slots=True)
class Resized:
    """Somebody wants another number of workers."""

    size: int


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """Take nothing new; what is not done by ``deadline`` is cut."""

    deadline: float


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed."""


Fact = Submitted | CancelRequested | Streamed | Finished | Ready | BootFailed | Exited | Resized | DrainBegun | Ticked

# --- orders -------------------------------------------------------------------------------------------------------


class KillReason(enum.Enum):
    """Why a worker is killed; the sentence for logs and errors."""

    BOOT_TIMEOUT = "it did not finish booting within boot_timeout"
    STUCK = "a call went on after its deadline or cancel and the grace"
    RETIRE_TIMEOUT = "it did not leave within graceful_timeout"
    DRAIN_DEADLINE = "the drain deadline passed"


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process that holds these apps."""

    worker: WorkerId
    apps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send the call to the worker; ``attempt`` counts from 1."""

    worker: WorkerId
    call: CallId
    attempt: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Tell the worker that nobody waits for the call any more."""

    worker: WorkerId
    call: CallId


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the caller that there will be no result. ``worker`` is set when one had it; ``attempts`` counts runs."""

    call: CallId
    why: Refusal
    worker: WorkerId | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Retire:
    """Tell the worker to close its apps and leave; it has no calls."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Kill:
    """End the process now."""

    worker: WorkerId
    why: KillReason


@dataclass(frozen=True, slots=True)
class ReportDrained:
    """Nothing is left: no call, no worker."""


Order = Spawn | Dispatch | Interrupt | Refuse | Retire | Kill | ReportDrained
