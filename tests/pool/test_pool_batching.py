"""Calls that run together, fact by fact: when a batch goes, who is in it, and what becomes of its slot."""

from __future__ import annotations

from typing import Any

import pytest

from dirtybus.batch import Batch
from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import Pool, ports
from dirtybus.pool.model import Call, CallId, OnCancel, Refusal, WorkerId
from dirtybus.pool.ports import Dispatch, Exited, Finished, Kill, Ready, Refuse, RunBatch, Spawn, Submitted, Ticked

APP = "m:A"
W1, W2 = WorkerId(1), WorkerId(2)
THREE = Batch(max_size=3, max_wait=1.0)


def pool_with(workers: int = 1, **settings: Any) -> Pool:
    pool = Pool(DirtyConfig(workers=workers, restart_delay_s=1.0, **settings), [AppSpec(APP)])
    for order in pool.step(Ticked(), 0.0):
        assert isinstance(order, Spawn)
        pool.step(Ready(order.worker), 0.0)
    return pool


def call(number: int, at: float = 0.0, batch: Batch | None = THREE, **terms: Any) -> Call:
    ripe_at = None if batch is None else at + batch.max_wait
    action = terms.pop("action", "x") if batch is not None else ""
    return Call(id=CallId(number), app=APP, batch=batch, action=action, ripe_at=ripe_at, **terms)


def submit(pool: Pool, *calls: Call, at: float = 0.0) -> list[ports.Order]:
    return [order for each in calls for order in step(pool, Submitted(each), at)]


def step(pool: Pool, fact: ports.Fact, now: float) -> list[ports.Order]:
    orders = pool.step(fact, now)
    pool.check_invariants()
    return orders


def batch(worker: WorkerId, *numbers: int, attempt: int = 1) -> list[ports.Order]:
    first = CallId(numbers[0])
    return [*(Dispatch(worker, CallId(n), attempt, first) for n in numbers), RunBatch(worker, first)]


def test_a_full_batch_goes_at_once() -> None:
    pool = pool_with()
    assert submit(pool, call(1), call(2)) == []
    assert submit(pool, call(3)) == batch(W1, 1, 2, 3)


def test_an_unfull_batch_goes_when_its_oldest_has_waited_long_enough() -> None:
    pool = pool_with()
    assert submit(pool, call(1, 5.0), at=5.0) == []
    assert pool.wake_at() == 6.0
    assert submit(pool, call(2, 5.9), at=5.9) == []
    assert step(pool, Ticked(), 6.0) == batch(W1, 1, 2)
    assert pool.wake_at() is None


def test_without_a_wait_a_call_goes_at_once_and_those_that_find_nobody_free_go_together() -> None:
    eager = Batch(max_size=3, max_wait=0)
    pool = pool_with()
    assert submit(pool, call(1, batch=eager)) == batch(W1, 1)
    assert submit(pool, *(call(n, batch=eager) for n in (2, 3, 4, 5))) == []
    assert step(pool, Finished(W1, CallId(1)), 0.1) == batch(W1, 2, 3, 4)


def test_a_batch_takes_one_slot_until_its_last_call_is_done() -> None:
    pool = pool_with()
    submit(pool, call(1), call(2), call(3))
    assert submit(pool, call(4, batch=None)) == []
    assert step(pool, Finished(W1, CallId(2)), 1.0) == []
    assert step(pool, Finished(W1, CallId(1)), 1.0) == []
    assert step(pool, Finished(W1, CallId(3)), 1.0) == [Dispatch(W1, CallId(4), 1)]


def test_calls_of_other_actions_do_not_go_along() -> None:
    pool = pool_with()
    assert submit(pool, call(1), call(2, action="y"), call(3), call(4, action="y")) == []
    assert submit(pool, call(5)) == batch(W1, 1, 3, 5)


def test_callers_take_turns_in_a_batch_and_the_highest_priority_goes_first() -> None:
    pool = pool_with()
    submit(pool, call(1, batch=None))
    submit(pool, *(call(n, caller=1) for n in (2, 3, 4)), call(5, caller=2), call(6, caller=1, priority=5))
    assert step(pool, Finished(W1, CallId(1)), 0.5) == batch(W1, 6, 2, 5)


def test_a_batch_costs_no_more_than_it_may_unless_one_call_does() -> None:
    heavy = Batch(max_size=9, max_wait=1.0, cost="bytes", max_cost=100)
    pool = pool_with()
    assert submit(pool, call(1, batch=heavy, size=40), call(2, batch=heavy, size=40)) == []
    assert submit(pool, call(3, batch=heavy, size=40)) == batch(W1, 1, 2)
    assert step(pool, Finished(W1, CallId(1)), 0.1) == []
    assert step(pool, Finished(W1, CallId(2)), 0.1) == []
    assert submit(pool, call(4, batch=heavy, size=900)) == batch(W1, 3)


def test_a_deadline_ends_one_of_a_batch_and_its_slot_stays_with_the_others() -> None:
    pool = pool_with(cancel_grace_s=0.0)
    submit(pool, call(1, expires_at=2.0), call(2), call(3))
    first, *rest = step(pool, Ticked(), 2.0)
    assert first == Refuse(CallId(1), Refusal.TIMED_OUT, W1, 1)
    assert rest == [ports.Interrupt(W1, CallId(1))]
    assert pool.wake_at() is None, "nobody may be killed for it"


def test_the_grace_begins_when_nobody_waits_for_a_batch() -> None:
    pool = pool_with(cancel_grace_s=2.0)
    submit(pool, call(1), call(2), call(3))
    for number, at in ((1, 1.0), (2, 2.0), (3, 3.0)):
        step(pool, ports.CancelRequested(CallId(number)), at)
    assert pool.wake_at() == 5.0
    assert Kill(W1, ports.KillReason.STUCK) in step(pool, Ticked(), 5.0)


def test_the_grace_begins_when_the_last_that_is_waited_for_has_its_answer() -> None:
    pool = pool_with(cancel_grace_s=2.0)
    submit(pool, call(1), call(2), call(3))
    step(pool, ports.CancelRequested(CallId(1)), 1.0)
    step(pool, ports.CancelRequested(CallId(2)), 1.0)
    assert pool.wake_at() is None
    step(pool, Finished(W1, CallId(3)), 4.0)
    assert pool.wake_at() == 6.0
    step(pool, Finished(W1, CallId(1)), 5.0)
    assert step(pool, Ticked(), 6.0) == []
    assert pool.wake_at() == 7.0
    assert step(pool, Ticked(), 7.0) == [Kill(W1, ports.KillReason.STUCK)]


def test_without_a_grace_the_last_words_of_a_batch_have_time_to_arrive() -> None:
    pool = pool_with(cancel_grace_s=0.0)
    submit(pool, call(1), call(2), call(3))
    step(pool, ports.CancelRequested(CallId(3)), 1.0)
    step(pool, Finished(W1, CallId(1)), 4.0)
    assert step(pool, Finished(W1, CallId(2)), 4.0) == []
    assert pool.wake_at() == 5.0


def test_a_batch_that_may_not_cost_its_worker_is_waited_for() -> None:
    pool = pool_with(cancel_grace_s=2.0)
    submit(pool, *(call(n, on_cancel=OnCancel.WAIT) for n in (1, 2, 3)))
    for number in (1, 2):
        step(pool, ports.CancelRequested(CallId(number)), 1.0)
    step(pool, Finished(W1, CallId(3)), 1.0)
    assert pool.wake_at() is None


def test_after_a_crash_each_call_runs_alone() -> None:
    pool = pool_with(2)
    submit(pool, *(call(n, idempotent=True) for n in (1, 2)), call(3))
    orders = step(pool, Exited(W1), 1.0)
    assert Refuse(CallId(3), Refusal.WORKER_LOST, W1, 1) in orders
    assert [order for order in orders if isinstance(order, Dispatch | RunBatch)] == batch(W2, 1, attempt=2)
    assert step(pool, Finished(W2, CallId(1)), 2.0)[:2] == batch(W2, 2, attempt=2)


def test_calls_that_a_dead_worker_had_not_begun_go_together_again_at_once() -> None:
    pool = pool_with(2)
    submit(pool, call(1), call(2), call(3))
    orders = step(pool, Exited(W1, frozenset(map(CallId, (2, 3)))), 0.1)
    assert Refuse(CallId(1), Refusal.WORKER_LOST, W1, 1) in orders
    assert [order for order in orders if isinstance(order, Dispatch | RunBatch)] == batch(W2, 2, 3)


def test_calls_that_would_not_fit_the_queue_end_the_wait_for_company() -> None:
    pool = pool_with(max_queued=2)
    assert submit(pool, call(1), call(2)) == []
    assert submit(pool, call(3)) == batch(W1, 1, 2)
    assert submit(pool, call(4), call(5)) == [Refuse(CallId(5), Refusal.QUEUE_FULL, retry_after_s=1.0)]


def test_a_drain_ends_the_wait_for_company() -> None:
    pool = pool_with()
    submit(pool, call(1), call(2))
    assert step(pool, ports.DrainBegun(9.0), 0.5)[:3] == batch(W1, 1, 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_grow_as_far_as_the_target_allows(workers: int) -> None:
    """A batch takes 10 ms and 1 ms for each call; 20 ms are left of the target, so ten go together."""
    aiming = Batch(max_size=64, max_wait=0.01, target=0.03)
    pool = pool_with(workers)
    now, number, sizes = 0.0, 0, list[int]()
    waiting: list[tuple[float, WorkerId, list[CallId]]] = []

    def take(orders: list[ports.Order]) -> None:
        sent = [order for order in orders if isinstance(order, Dispatch)]
        for run in (order for order in orders if isinstance(order, RunBatch)):
            members = [order.call for order in sent if order.batch == run.batch]
            sizes.append(len(members))
            waiting.append((now + 0.010 + 0.001 * len(members), run.worker, members))

    for _ in range(200):
        while sum(pool.snapshot().queued.values()) < 100:
            number += 1
            take(step(pool, Submitted(call(number, now, aiming)), now))
        waiting.sort()
        now, worker, members = waiting.pop(0)
        for member in members:
            take(pool.step(Finished(worker, member), now))
    assert sizes[0] == 1, "nothing was measured yet"
    assert set(sizes[40:]) <= {9, 10}
