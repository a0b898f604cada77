"""The open calls: what was asked, where the words go, which limit applies. Payloads stay closed here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dirtybus.arbiter.directory import Terms
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.ledger import Entry
from dirtybus.batch import Batch
from dirtybus.config import DirtyConfig
from dirtybus.errors import (
    CallCancelled,
    DirtyError,
    DirtyNoWorkersAvailableError,
    DirtyTimeoutError,
    Draining,
    PoisonCall,
    QueueFull,
    WorkerLost,
)
from dirtybus.pool.model import Call as PoolCall
from dirtybus.pool.model import CallId, Refusal, WorkerId
from dirtybus.pool.ports import Cause, Refuse
from dirtybus.protocol.frames import Buffer
from dirtybus.transport.sinks import Sink

__all__ = [
    "OpenCall",
    "Patience",
    "Request",
    "failure_error",
    "next_caller",
    "patience_of",
    "pool_call",
    "refusal_error",
]

#: gives each attached client its number; 0 is this process
next_caller = itertools.count(1).__next__


_MOST_PRIORITY = 100
#: so late may the loop's timer, which counts whole milliseconds, and what follows from it be
_TIMER_LATE_S = 0.002


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it comes in. ``timeout_s`` is the caller's own limit: None for none given, 0 for no deadline.

    ``priority`` None leaves it to the action. ``caller`` is whose turn it takes: 0 is this process, and each attached
    client has a number of its own. ``asked_at`` is when the caller asked, on the loop's clock, if that was earlier.
    """

    app: str
    action: str
    body: Sequence[Buffer]
    timeout_s: float | None = None
    window: int = 32
    priority: int | None = None
    caller: int = 0
    asked_at: float | None = None

    @property
    def size(self) -> int:
        """How many bytes the arguments take up."""
        return sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in self.body)


class OpenCall(msgspec.Struct):
    """A call without its outcome."""

    id: CallId
    request: Request
    sink: Sink
    terms: Terms
    expires_at: float | None
    entry: Entry
    worker: WorkerId | None = None
    has_streamed: bool = False
    #: how each worker that died with it ended, as a sentence; and the last one, as the system told it
    deaths: tuple[str, ...] = ()
    last_exit: ExitStatus | None = None


class Patience(msgspec.Struct, frozen=True):
    """Until when somebody waits, on the loop's clock, and what they are told then."""

    ends_at: float
    error: DirtyError


def pool_call(
    call_id: CallId, request: Request, terms: Terms, config: DirtyConfig, *, expires_at: float | None, now: float
) -> PoolCall:
    """Return the call as the pool sees it."""
    priority = terms.priority if request.priority is None else request.priority
    waits_s = config.queue_timeout_s
    return PoolCall(
        id=call_id,
        app=request.app,
        expires_at=expires_at,
        kind=terms.kind,
        idempotent=terms.idempotent,
        on_cancel=terms.on_cancel,
        released_by_drain=terms.released_by_drain,
        starts_by=(now if request.asked_at is None else request.asked_at) + waits_s if waits_s else None,
        priority=min(max(priority, -_MOST_PRIORITY), _MOST_PRIORITY),
        caller=request.caller,
        size=request.size,
        batch=terms.batch,
        action=request.action if terms.batch else "",
        ripe_at=None if terms.batch is None else now + _window_s(terms.batch, expires_at, waits_s, now),
    )


def _window_s(batch: Batch, expires_at: float | None, waits_s: float | None, now: float) -> float:
    """Return for how long a call waits for company: never for more than half of the time that it has to begin."""
    spans = [batch.max_wait - min(_TIMER_LATE_S, batch.max_wait / 2)]
    if expires_at is not None:
        spans.append((expires_at - now) / 2)
    if waits_s:
        spans.append(waits_s / 2)
    return max(0.0, min(spans))


def refusal_error(call: OpenCall, order: Refuse, config: DirtyConfig) -> DirtyError:  # noqa: C901 - a table
    """Return what the caller is told when the pool refuses its call."""
    name = f"{call.request.app} {call.request.action}"
    match order.why:
        case Refusal.EXPIRED if order.cause is Cause.QUEUE_TIMEOUT:
            return _queue_timeout(name, config)
        case Refusal.EXPIRED:
            return _no_worker(name, call.terms)
        case Refusal.TIMED_OUT:
            return _timeout(call.terms, "running", f"{name}: not done within {call.terms.timeout_s:g} s")
        case Refusal.CANCELLED:
            return CallCancelled(f"{name}: cancelled by its caller")
        case Refusal.QUEUE_FULL:
            return _full(name, order, config)
        case Refusal.DRAINING:
            return _drained(f"{name}: shutting down, so the call was not run to its end", order)
        case Refusal.RELEASED:
            return _drained(f"{name}: shutting down, and such calls are not waited for", order)
        case Refusal.WORKER_LOST:
            return _lost(call, order, WorkerLost, f"{name}: the worker died while it ran")
        case Refusal.POISONED:
            text = f"{name}: it killed {order.attempts} workers and will not be run again"
            return _lost(call, order, PoisonCall, text)
        case Refusal.NO_WORKERS | Refusal.UNKNOWN_APP | Refusal.APP_BROKEN:
            error = DirtyNoWorkersAvailableError(
                call.request.app,
                f"No workers available for app: {call.request.app}; they keep dying, see the log for the reason",
            )
            error.details["retry_after_s"] = 2.0
            return error


def patience_of(request: Request, terms: Terms, config: DirtyConfig, now: float) -> Patience | None:
    """Return for how long a caller who asks ``now`` waits for its call to begin; None: as long as it takes."""
    name = f"{request.app} {request.action}"
    limits = []
    if terms.timeout_s is not None:
        limits.append(Patience(now + terms.timeout_s, _no_worker(name, terms)))
    if config.queue_timeout_s:
        limits.append(Patience(now + config.queue_timeout_s, _queue_timeout(name, config)))
    return min(limits, key=lambda limit: limit.ends_at, default=None)


def failure_error(call: OpenCall, error: Mapping[str, Any]) -> DirtyError:
    """Return what the caller is told when the worker says that its call failed."""
    told = DirtyError.from_dict(error)
    if isinstance(told, CallCancelled) and call.expires_at is not None:
        # nobody cancelled it, or it would be settled: the action saw its deadline pass a moment before we did
        name = f"{call.request.app} {call.request.action}"
        return _timeout(call.terms, "running", f"{name}: not done within {call.terms.timeout_s:g} s")
    return told


def _drained(text: str, order: Refuse) -> Draining:
    # one that waited may have run before, in a worker that died
    may_have_begun = order.worker is not None or order.attempts > 0
    return Draining(text, {"started": may_have_begun}, retry_after_s=5.0)


def _queue_timeout(name: str, config: DirtyConfig) -> DirtyTimeoutError:
    whose, limit_s = "the setting queue_timeout", config.queue_timeout_s
    text = f"{name}: it was not started within {limit_s or 0:g} s ({whose}; it was queued)"
    return DirtyTimeoutError(text, limit_s, whose, "queued")


def _full(name: str, order: Refuse, config: DirtyConfig) -> QueueFull:
    text = f"{name}: the queue is full; slow down, or raise max_queued or max_queued_payload_bytes"
    if order.cause is Cause.DROPPED:
        text = f"{name}: the queue is full, and this call was dropped from it for a newer one"
    # whoever sees it may wait in our stead: a client of another process does
    details = {"wait": True} if config.queue_full == "wait" else None
    return QueueFull(text, details, retry_after_s=order.retry_after_s)


def _no_worker(name: str, terms: Terms) -> DirtyTimeoutError:
    return _timeout(terms, "queued", f"{name}: no worker was free within {terms.timeout_s:g} s")


def _timeout(terms: Terms, phase: str, text: str) -> DirtyTimeoutError:
    return DirtyTimeoutError(f"{text} ({terms.whose}; it was {phase})", terms.timeout_s, terms.whose, phase)


def _lost(call: OpenCall, order: Refuse, kind: type[WorkerLost], text: str) -> WorkerLost:
    reason = call.deaths[-1] if call.deaths else None
    error = kind(
        f"{text}: {reason}" if reason else text,
        order.worker,
        reason=reason,
        exit_code=call.last_exit.code if call.last_exit else None,
        signal=call.last_exit.signal if call.last_exit else None,
        oom_hint=call.last_exit.oom_hint if call.last_exit else None,
        started=True,
        attempts=order.attempts,
    )
    error.details["history"] = list(call.deaths)
    return error
