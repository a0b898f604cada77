from __future__ import annotations

import pytest

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.errors import ConfigError
from dirtybus.pool import Pool
from dirtybus.pool.model import ActionKind, Refusal
from dirtybus.pool.ports import (
    BootFailed,
    CancelRequested,
    Dispatch,
    Exited,
    Finished,
    Ready,
    Refuse,
    Spawn,
    Submitted,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, C4, W1, W2, W3, boot, call, new_pool, only, ready_pool, submit


def test_a_waiting_call_goes_to_the_worker_that_frees_first() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2, 3)
    assert pool.step(Finished(W2, C2), 1.0) == [Dispatch(W2, C3, 1)]
    assert repr(pool) == "<Pool 2 ready, 0 booting, 2 running, 0 queued>"


def test_the_first_step_spawns_every_worker_whatever_the_fact() -> None:
    pool = new_pool(workers=2)
    assert pool.step(Submitted(call(1)), 5.0) == [Spawn(W1, (APP,)), Spawn(W2, (APP,))]
    assert repr(pool) == "<Pool 0 ready, 2 booting, 0 running, 1 queued>"


def test_a_call_waits_for_a_worker_that_boots() -> None:
    pool = new_pool()
    pool.step(Ticked(), 0.0)
    assert submit(pool, 1) == []
    assert pool.step(Ready(W1), 9.0) == [Dispatch(W1, C1, 1)]


def test_a_call_waits_for_a_worker_that_will_be_spawned_again() -> None:
    pool = ready_pool()
    pool.step(Exited(W1), 1.0)
    assert submit(pool, 1, now=1.0) == []
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C1, 1)]


def test_a_worker_whose_boot_failed_is_not_ready_whatever_it_says() -> None:
    pool = new_pool()
    pool.step(Ticked(), 0.0)
    submit(pool, 1)
    assert pool.step(BootFailed(W1), 1.0) == []
    assert pool.step(Ready(W1), 1.1) == []


def test_the_least_busy_worker_gets_the_call_and_the_first_among_equals() -> None:
    pool = ready_pool(workers=2, threads=3)
    assert submit(pool, 1, 2, 3) == [Dispatch(W1, C1, 1), Dispatch(W2, C2, 1), Dispatch(W1, C3, 1)]
    assert submit(pool, 4) == [Dispatch(W2, C4, 1)]


def test_a_call_goes_only_to_a_worker_that_holds_its_app() -> None:
    pool = ready_pool("m:A", "m:B:1", workers=2)
    assert submit(pool, call(1, "m:B"), call(2, "m:B"), call(3, "m:A")) == [Dispatch(W1, C1, 1), Dispatch(W2, C3, 1)]
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]


def test_a_freed_worker_takes_the_oldest_call_of_all_its_apps() -> None:
    pool = ready_pool("m:A", "m:B")
    submit(pool, call(1, "m:A"), call(2, "m:B"), call(3, "m:A"))
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Finished(W1, C2), 2.0) == [Dispatch(W1, C3, 1)]


def test_a_worker_that_becomes_ready_fills_all_its_slots() -> None:
    pool = new_pool(threads=2)
    submit(pool, 1, 2, 3)
    assert pool.step(Ready(W1), 1.0) == [Dispatch(W1, C1, 1), Dispatch(W1, C2, 1)]


def test_async_calls_have_slots_of_their_own() -> None:
    pool = ready_pool(threads=1, async_concurrency=2)
    submit(pool, 1, 2)
    orders = submit(pool, *(call(n, kind=ActionKind.ASYNC) for n in (3, 4, 5)))
    assert orders == [Dispatch(W1, C3, 1), Dispatch(W1, C4, 1)]
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]


def test_an_app_with_more_threads_of_its_own_widens_its_workers() -> None:
    pool = Pool(DirtyConfig(threads=1), [AppSpec("m:A"), AppSpec("m:B")], threads_by_app={"m:B": 3})
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    orders = submit(pool, call(1, "m:A"), call(2, "m:A"), call(3, "m:B"), call(4, "m:B"), call(5, "m:B"))
    assert [order.call for order in only(Dispatch, orders)] == [1, 3, 4]


def test_an_app_with_fewer_threads_of_its_own_never_runs_more() -> None:
    pool = Pool(DirtyConfig(threads=2), [AppSpec("m:A"), AppSpec("m:B")], threads_by_app={"m:B": 1})
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    orders = submit(pool, call(1, "m:B"), call(2, "m:B"), call(3, "m:A"))
    assert [order.call for order in only(Dispatch, orders)] == [1, 3]


def test_a_call_for_an_app_that_nobody_listed_is_refused() -> None:
    assert submit(ready_pool(), call(1, "m:Ghost")) == [Refuse(C1, Refusal.UNKNOWN_APP)]


def test_a_pool_without_apps_starts_nobody() -> None:
    pool = Pool(DirtyConfig(), [])
    assert pool.step(Ticked(), 0.0) == []
    assert pool.wake_at() is None
    assert submit(pool, 1) == [Refuse(C1, Refusal.UNKNOWN_APP)]


def test_the_call_after_the_last_place_in_the_queue_is_refused() -> None:
    pool = ready_pool(max_queued=2)
    assert submit(pool, 1, 2, 3, 4) == [Dispatch(W1, C1, 1), Refuse(C4, Refusal.QUEUE_FULL, retry_after_s=1.0)]
    pool.step(Finished(W1, C1), 1.0)
    assert submit(pool, 5, now=1.0) == []


def test_a_full_queue_refuses_nobody_whom_a_worker_can_take() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, 1, 2)
    fast = call(3, kind=ActionKind.ASYNC)
    assert submit(pool, fast) == [Dispatch(W1, C3, 1)]
    assert submit(pool, 4) == [Refuse(C4, Refusal.QUEUE_FULL, retry_after_s=1.0)]


def test_the_full_queue_of_one_app_is_nothing_to_another() -> None:
    pool = ready_pool("m:A", "m:B", max_queued=1)
    submit(pool, call(1, "m:A"), call(2, "m:A"))
    assert submit(pool, call(3, "m:B")) == []
    assert submit(pool, call(4, "m:B")) == [Refuse(C4, Refusal.QUEUE_FULL, retry_after_s=1.0)]


def test_calls_that_are_due_to_leave_a_full_queue_make_room() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, call(1), call(2, expires_at=3.0))
    assert submit(pool, 3, now=3.0) == [Refuse(C2, Refusal.EXPIRED)]


def test_a_cancelled_call_makes_room_in_the_queue() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, 1, 2)
    assert pool.step(CancelRequested(C2), 0.0) == [Refuse(C2, Refusal.CANCELLED)]
    assert submit(pool, 3) == []


def test_a_call_handed_in_twice_is_booked_once() -> None:
    pool = ready_pool()
    assert submit(pool, 1, 1) == [Dispatch(W1, C1, 1)]
    assert pool.step(Finished(W1, C1), 1.0) == []


@pytest.mark.parametrize("fact", [Finished(W3, C1), Finished(W1, C4), Finished(W2, C1), Ready(W3), Exited(W3)])
def test_a_fact_about_somebody_unknown_changes_nothing(fact: Finished | Ready | Exited) -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2)
    before = pool.snapshot()
    assert pool.step(fact, 0.0) == []
    assert pool.snapshot() == before


def test_two_finishes_of_one_call_free_one_slot() -> None:
    pool = ready_pool()
    submit(pool, 1, 2, 3)
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Finished(W1, C1), 1.0) == []


def test_an_app_that_wants_more_workers_than_there_are_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"m:Heavy.* 3 workers"):
        new_pool("m:Heavy:3", workers=2)


def test_the_snapshot_shows_workers_seats_and_queues() -> None:
    pool = ready_pool("m:A:1", "m:B:1", workers=3)
    submit(pool, call(1, "m:A"), call(2, "m:A"), call(3, "m:B", kind=ActionKind.ASYNC))
    pool.step(CancelRequested(C1), 2.0)
    pool.step(Exited(W2), 3.0)
    shown = pool.snapshot()
    assert [(w.id, w.apps, w.running, w.abandoned) for w in shown.workers] == [
        (W1, ("m:A",), (C1,), (C1,)),
        (W3, ("m:B",), (), ()),
    ]
    assert [worker.age_s for worker in shown.workers] == [3.0, 0.0]
    assert [(seat.worker, seat.deaths) for seat in shown.seats] == [(W1, 0), (W3, 1), (None, 0)]
    assert shown.idle_seats == (2,)
    assert shown.queued == {"m:A": 1}
    assert (shown.size, shown.smallest_size) == (3, 2)
