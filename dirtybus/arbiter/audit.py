"""The audit: whether pool, desk and crew tell the same story of the same calls. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dirtybus.arbiter.crew import Crew
from dirtybus.pool.model import CallId
from dirtybus.pool.snapshot import PoolSnapshot

__all__ = ["check_books"]


def check_books(pool: PoolSnapshot, open_calls: Mapping[CallId, str], crew: Crew) -> None:
    """Raise AssertionError naming what does not add up; to be asked when every order was carried out.

    Args:
        pool: as of the last step.
        open_calls: the calls whose callers wait, and the app of each.
        crew: the workers' records.
    """
    wanted: set[CallId] = set()
    for worker in pool.workers:
        record = crew.get(worker.id)
        assert record is not None, f"worker {worker.id} is in the pool and nowhere else"
        assert record.calls.keys() == set(worker.running), (
            f"worker {worker.id} runs {set(worker.running)} for the pool, but was sent {set(record.calls)}"
        )
        told = wanted.intersection(worker.running)
        assert not told, f"the calls {told} run twice at once"
        wanted.update(worker.running)
        wanted.difference_update(worker.abandoned)
    assert wanted <= open_calls.keys(), f"the calls {wanted - open_calls.keys()} run, and nobody was told of their end"
    # the pool tells how many wait, not which; one that it has forgotten would be missing here
    waiting = Counter(app for call_id, app in open_calls.items() if call_id not in wanted)
    assert waiting == Counter(pool.queued), f"{dict(waiting)} calls are open and do not run, {dict(pool.queued)} wait"
