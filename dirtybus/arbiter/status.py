"""What is going on, as plain values: the one shape that every observer reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from dirtybus.arbiter.ledger import Ledger
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.pool.snapshot import PoolSnapshot, WorkerView

__all__ = ["status_of"]


def status_of(
    name: str, state: str, pool: PoolSnapshot | None, records: Iterable[WorkerRecord], ledger: Ledger
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
        "workers": [_worker(view, by_id.get(view.id)) for view in workers],
        "queued": {} if pool is None else dict(pool.queued),
        "queued_bytes": {} if pool is None else dict(pool.queued_bytes),
        "ledger": dict(ledger.as_mapping()),
    }


def _worker(view: WorkerView, record: WorkerRecord | None) -> Mapping[str, Any]:
    state = view.phase.value
    if state == "ready":
        state = "busy" if view.running else "idle"
    return {
        "worker": view.id,
        "pid": 0 if record is None else record.pid,
        "state": state,
        "apps": list(view.apps),
        "age_s": round(view.age_s, 3),
        "boot_s": None if record is None else record.boot_s,
        "running": len(view.running),
        "answered": 0 if record is None else record.answered,
    }
