"""The open calls: what was asked, where the words go, which limit applies. Payloads stay closed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dirtybus.arbiter.directory import Terms
from dirtybus.arbiter.exits import ExitStatus
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
from dirtybus.pool.model import CallId, Refusal, WorkerId
from dirtybus.pool.ports import Refuse
from dirtybus.protocol.frames import Buffer
from dirtybus.transport.sinks import Sink

__all__ = ["OpenCall", "Request", "failure_error", "refusal_error"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it comes in. ``timeout_s`` is the caller's own limit: None for none given, 0 for no deadline."""

    app: str
    action: str
    body: Sequence[Buffer]
    timeout_s: float | None = None
    window: int = 32


class OpenCall(msgspec.Struct):
    """A call without its outcome."""

    id: CallId
    request: Request
    sink: Sink
    terms: Terms
    expires_at: float | None
    worker: WorkerId | None = None
    has_streamed: bool = False
    #: how each worker that died with it ended, as a sentence; and the last one, as the system told it
    deaths: tuple[str, ...] = ()
    last_exit: ExitStatus | None = None


def refusal_error(call: OpenCall, order: Refuse) -> DirtyError:
    """Return what the caller is told when the pool refuses its call."""
    name = f"{call.request.app} {call.request.action}"
    match order.why:
        case Refusal.EXPIRED:
            return _timeout(call, "queued", f"{name}: no worker was free within {call.terms.timeout_s:g} s")
        case Refusal.TIMED_OUT:
            return _timeout(call, "running", f"{name}: not done within {call.terms.timeout_s:g} s")
        case Refusal.CANCELLED:
            return CallCancelled(f"{name}: cancelled by its caller")
        case Refusal.QUEUE_FULL:
            return QueueFull(f"{name}: the queue is full; slow down or raise max_queued", retry_after_s=1.0)
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


def failure_error(call: OpenCall, error: Mapping[str, Any]) -> DirtyError:
    """Return what the caller is told when the worker says that its call failed."""
    told = DirtyError.from_dict(error)
    if isinstance(told, CallCancelled) and call.expires_at is not None:
        # nobody cancelled it, or it would be settled: the action saw its deadline pass a moment before we did
        name = f"{call.request.app} {call.request.action}"
        return _timeout(call, "running", f"{name}: not done within {call.terms.timeout_s:g} s")
    return told


def _drained(text: str, order: Refuse) -> Draining:
    # one that waited may have run before, in a worker that died
    may_have_begun = order.worker is not None or order.attempts > 0
    return Draining(text, {"started": may_have_begun}, retry_after_s=5.0)


def _timeout(call: OpenCall, phase: str, text: str) -> DirtyTimeoutError:
    whose = call.terms.whose
    return DirtyTimeoutError(f"{text} ({whose}; it was {phase})", call.terms.timeout_s, whose, phase)


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
