"""What is going on, as plain values: the one shape that every observer reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from dirtybus.arbiter.ledger import Entry, Ledger
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.pool.snapshot import PoolSnapshot, WorkerView

__all__ = ["status_of"]

#: a worker may run a thousand async calls; those that have been in it longest are the ones to look at
_MOST_CALLS: Final = 20


def status_of(
    name: str, state: str, pool: PoolSnapshot | None, records: Iterable[WorkerRecord], ledger: Ledger, *, now: float
) -> dict[str, Any]:
    """Return the status. Spans are seconds; ``state`` is starting, open, leaving or draining."""
    by_id = {record.id: record for record in records}
    workers = () if pool is None else pool.workers
    return {
        "name": name,
        "pid": os.getpid(),
        "state": state,
        "target": 0 if pool is None else pool.size,
        "smallest": 0 if pool is None else pool.smallest_size,
        "least": 0 if pool is None else pool.least,
        "most": 0 if pool is None else pool.most,
        "workers": [_worker(view, by_id.get(view.id), now) for view in workers],
        "queued": {} if pool is None else dict(pool.queued),
        "queued_bytes": {} if pool is None else dict(pool.queued_bytes),
        "waits": {} if pool is None else dict(pool.waits),
        "broken": [] if pool is None else list(pool.broken),
        "oldest_call_s": _rounded(ledger.oldest_s(now)),
        "ledger": dict(ledger.as_mapping()),
    }


def _worker(view: WorkerView, record: WorkerRecord | None, now: float) -> Mapping[str, Any]:
    state = view.phase.value
    if state == "ready":
        state = "busy" if view.running else "idle"
    return {
        "worker": view.id,
        "pid": 0 if record is None else record.pid,
        "state": state,
        "why": view.why,
        "apps": list(view.apps),
        "age_s": round(view.age_s, 3),
        "boot_s": None if record is None else record.boot_s,
        "running": len(view.running),
        "answered": 0 if record is None else record.answered,
        "calls": [] if record is None else [_call(entry, now) for entry in islice(record.calls.values(), _MOST_CALLS)],
    }


def _call(entry: Entry, now: float) -> Mapping[str, Any]:
    return {
        "call": entry.id,
        "app": entry.app,
        "action": entry.action,
        "attempt": entry.attempts,
        "age_s": _rounded(now - entry.accepted_at),
        "running_s": 0.0 if entry.runs_since is None else _rounded(now - entry.runs_since),
        "outcome": entry.outcome,
    }


def _rounded(span_s: float | None) -> float | None:
    return None if span_s is None else round(span_s, 3)
