"""Calls and workers as plain values. Knows no clock, no process and no payload."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NewType

import msgspec

from dirtybus.batch import Batch

__all__ = [
    "ActionKind",
    "BatchRun",
    "Call",
    "CallId",
    "Lane",
    "OnCancel",
    "Phase",
    "Refusal",
    "Running",
    "Track",
    "Waiting",
    "Worker",
    "WorkerId",
]

#: Ours, never a pid: the system reuses pids.
WorkerId = NewType("WorkerId", int)
CallId = NewType("CallId", int)


class Phase(enum.Enum):
    """Where a worker is in its life. It only ever moves down this list."""

    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    KILLED = "killed"


class ActionKind(enum.Enum):
    """What a call takes up in its worker: one of its ``threads`` slots, or one of its many async slots."""

    SYNC = "sync"
    ASYNC = "async"

    # members are compared by identity; Enum's own hash is Python code, and every lane has a kind in it
    __hash__ = object.__hash__


#: Calls of one app that take the same sort of slot: they wait in one line.
Lane = tuple[str, ActionKind]

#: A line of calls: those of a lane that run one by one, or those of one action, named last, that run together.
Track = tuple[str, ActionKind] | tuple[str, ActionKind, str]


class OnCancel(enum.Enum):
    """What becomes of a worker whose cancelled or expired call does not end within the grace."""

    KILL = "kill"
    WAIT = "wait"


class Refusal(enum.Enum):
    """Why a call gets no result from a worker. The arbiter turns each into one error class."""

    UNKNOWN_APP = "unknown_app"
    NO_WORKERS = "no_workers"
    QUEUE_FULL = "queue_full"
    DRAINING = "draining"
    RELEASED = "released"
    EXPIRED = "expired"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    WORKER_LOST = "worker_lost"
    POISONED = "poisoned"
    APP_BROKEN = "app_broken"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted call. ``expires_at`` is a moment on the pool's clock, in seconds; None: never.

    ``idempotent`` allows a second run when a worker died with the call in it. ``on_cancel`` says what becomes of a
    worker in which the call goes on after its cancel or deadline and the grace of the settings. ``released_by_drain``
    ends it when a drain begins, instead of waiting for its end. ``starts_by`` is a moment too: the call must have been
    started once by then. Of calls that wait, the highest ``priority`` goes first, and within it the ``caller``s take
    turns. ``size`` is how many bytes its arguments take up while it waits. With ``batch``, it runs together with other
    calls of the same ``action``; it waits for them until ``ripe_at``, as long as there is no full batch.
    """

    id: CallId
    app: str
    expires_at: float | None = None
    kind: ActionKind = ActionKind.SYNC
    idempotent: bool = False
    on_cancel: OnCancel = OnCancel.KILL
    released_by_drain: bool = False
    starts_by: float | None = None
    priority: int = 0
    caller: int = 0
    size: int = 0
    batch: Batch | None = None
    action: str = ""
    ripe_at: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call in the queue. ``order`` is its place among all calls ever accepted; it keeps it through re-runs.

    ``attempt`` is the run that it waits for, from 1; ``crashes`` counts the workers that died of themselves with it.
    ``turn`` is the turn of its caller in which it was sent to a worker; None: it never was. ``bounces`` counts the
    workers that were gone before they had begun it.
    """

    call: Call
    order: int
    attempt: int = 1
    crashes: int = 0
    turn: int | None = None
    bounces: int = 0

    @property
    def is_fresh(self) -> bool:
        """Whether it has never been sent to a worker. Only such calls count towards the bounds, and may yield."""
        return self.turn is None


@dataclass(slots=True, eq=False)
class BatchRun:
    """Calls that run as one, in one slot. ``size`` and ``cost`` are those at its start.

    ``members`` are those that the worker still has; the slot is free when there is none. ``is_telling`` says that its
    time will be that of its work alone.
    """

    id: CallId
    started_at: float
    size: int = 0
    cost: float = 0.0
    members: set[CallId] = field(default_factory=set)
    is_telling: bool = True


@dataclass(slots=True)
class Running:
    """A call in a worker. ``abandoned_at`` is set when its caller has been told and only the slot is still taken."""

    call: Call
    attempt: int
    abandoned_at: float | None = None
    #: a first chunk went out: running it again would repeat it
    has_streamed: bool = False
    order: int = 0
    crashes: int = 0
    turn: int = 0
    bounces: int = 0
    started_at: float = 0.0
    batch: BatchRun | None = None


@dataclass(slots=True)
class Worker:
    """A process as the pool sees it. ``seat`` is its place in the placement plan.

    ``is_seated`` is True while it holds the seat or is the heir there; ``is_leaving`` is set when the pool wants it
    gone, so that its end is not held against its seat. ``generation`` counts the reloads before its start.
    """

    id: WorkerId
    seat: int
    apps: tuple[str, ...]
    born_at: float
    phase: Phase = Phase.BOOTING
    ready_at: float | None = None
    kill_at: float | None = None
    #: how many were ready before it
    readied: int = 0
    #: since when it has nothing to do; of no meaning while it runs calls
    idle_since: float = 0.0
    running: dict[CallId, Running] = field(default_factory=dict)
    is_leaving: bool = False
    is_seated: bool = True
    generation: int = 0
    #: the apps of which it has answered a call
    answered: set[str] = field(default_factory=set)
    #: it is killed for what the calls in it may have done: it gives no sign of life, or takes too much memory
    is_suspect: bool = False
    #: how many sync calls it may run at once, whatever their apps
    threads: int = 1
    #: how many calls of each lane, and of each kind, take a slot now
    taken: dict[Lane, int] = field(default_factory=dict)
    busy: dict[ActionKind, int] = field(default_factory=lambda: dict.fromkeys(ActionKind, 0))
