"""What Passenger's tests ask of its ApplicationPool, asked of ours.

======  ============================================================  =============================================
cases   there                                                         here
======  ============================================================  =============================================
2-5     a request finds no process, an idle one, only busy ones       a call finds a booting, idle, busy worker
6-11    the first process with room takes the next request            the same, whether it was busy or has just come
12-14   shutting down while a process is spawned or restarted         draining while workers boot, or in a reload
30-36   detaching a process                                           scaling down, a reload letting a holder go
40-44   disabling a process                                           a worker that drains while calls go elsewhere
67-68   spawning fails: the waiters hear it, the others are kept      circuits, failed reloads
72-75   a restart during a spawn never attaches old code              a reload that begins while workers boot
77      the queue is full                                             ``max_queued``
78      restarts in a row                                             reloads in a row
======  ============================================================  =============================================

Cases about processes spawned for each group of requests, taken from other groups or stopped when idle, about a limit
of requests for each process, about connecting to one and about out-of-band work have no counterpart here.
"""

from __future__ import annotations

import pytest

from dirtybus.config import DirtyConfig
from dirtybus.pool import Pool
from dirtybus.pool.model import Phase, Refusal, WorkerId
from dirtybus.pool.ports import (
    BootFailed,
    CommitReload,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Kill,
    KillReason,
    Order,
    Ready,
    Refuse,
    ReloadBegun,
    ReportCircuit,
    ReportDrained,
    ReportReload,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, C4, W1, W2, W3, W4, call, new_pool, only, ready_pool, specs, submit


def reload(pool: Pool, *, generation: int = 1, now: float = 1.0) -> list[Order]:
    fact = ReloadBegun(generation, DirtyConfig(workers=pool.size), tuple(specs()), pool.size, {})
    return pool.step(fact, now)


# --- 2-11: who takes a call, and the race with a worker that is being started ---


def test_a_call_that_finds_no_worker_waits_for_the_first_and_starts_no_other() -> None:
    pool = new_pool()
    assert submit(pool, 1) == [Spawn(W1, (APP,))]
    assert submit(pool, 2) == []
    assert pool.step(Ready(W1), 1.0) == [Dispatch(W1, C1, 1)]


def test_a_call_that_finds_an_idle_worker_does_not_wait_for_one_that_boots() -> None:
    pool = ready_pool()
    pool.step(Resized(2), 0.0)
    assert submit(pool, 1) == [Dispatch(W1, C1, 1)]


def test_a_call_that_finds_a_busy_and_an_idle_worker_takes_the_idle_one() -> None:
    pool = ready_pool(workers=2, threads=2)
    assert submit(pool, 1, 2) == [Dispatch(W1, C1, 1), Dispatch(W2, C2, 1)]


def test_when_all_are_busy_the_first_with_room_takes_the_call() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2, 3)
    assert pool.step(Finished(W2, C2), 1.0) == [Dispatch(W2, C3, 1)]


def test_a_worker_that_becomes_ready_before_one_has_room_takes_the_call() -> None:
    pool = ready_pool()
    submit(pool, 1, 2)
    pool.step(Resized(2), 1.0)
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C2, 1)]
    assert pool.step(Finished(W1, C1), 3.0) == []


def test_a_worker_that_has_room_before_another_is_ready_takes_the_call() -> None:
    pool = ready_pool()
    submit(pool, 1, 2)
    pool.step(Resized(2), 1.0)
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Ready(W2), 3.0) == []


def test_calls_that_waited_for_a_worker_go_out_in_their_order_up_to_its_threads() -> None:
    pool = new_pool(threads=2)
    submit(pool, 1, 2, 3)
    assert pool.step(Ready(W1), 1.0) == [Dispatch(W1, C1, 1), Dispatch(W1, C2, 1)]


def test_no_call_waits_behind_a_long_one_while_another_worker_is_free() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1)  # the long one
    for number in range(2, 12):
        assert submit(pool, number) == [Dispatch(W2, call(number).id, 1)]
        pool.step(Finished(W2, call(number).id), 1.0)


def test_the_last_worker_for_a_call_dies_while_the_next_boots() -> None:
    pool = ready_pool()
    submit(pool, 1, 2)
    assert Spawn(W2, (APP,)) in pool.step(Exited(W1), 1.0)
    assert submit(pool, 3, now=1.5) == []
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C2, 1)]


# --- 12-14: the end, in the middle of a beginning ---


def test_a_drain_while_a_worker_boots_lets_it_serve_those_that_wait_for_it() -> None:
    pool = new_pool()
    submit(pool, 1)
    assert pool.step(DrainBegun(60.0), 1.0) == []
    assert pool.step(Ready(W1), 2.0) == [Dispatch(W1, C1, 1)]
    assert pool.step(Finished(W1, C1), 3.0) == [Retire(W1)]
    assert pool.step(Exited(W1), 4.0) == [ReportDrained()]


def test_a_drain_while_a_worker_boots_for_nobody_ends_it() -> None:
    pool = new_pool(workers=2)
    pool.step(Ticked(), 0.0)
    assert pool.step(DrainBegun(60.0), 1.0) == [Retire(W1), Retire(W2)]
    assert pool.step(Ready(W1), 2.0) == [], "too late"
    pool.step(Exited(W1), 3.0)
    assert pool.step(Exited(W2), 3.0) == [ReportDrained()]


def test_a_drain_while_a_worker_boots_that_then_fails_tries_again_until_the_deadline() -> None:
    pool = new_pool()
    submit(pool, 1)
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.step(Exited(W1), 2.0) == [Spawn(W2, (APP,))]
    assert pool.step(Ticked(), 60.0) == [Refuse(C1, Refusal.DRAINING), Retire(W2)]


def test_a_drain_in_a_reload_lets_old_and_new_end_their_calls() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2, 3)
    reload(pool)
    pool.step(Ready(W3), 2.0)
    assert pool.step(DrainBegun(60.0), 3.0) == [ReportReload(1, is_done=False)]
    assert pool.step(Finished(W3, C3), 4.0) == [Retire(W3)]
    assert pool.step(Finished(W1, C1), 4.0) == [Retire(W1)]
    assert pool.step(Finished(W2, C2), 4.0) == [Retire(W2)]
    for worker in (W1, W2, W3):
        orders = pool.step(Exited(worker), 5.0)
    assert orders == [ReportDrained()]


# --- 30-36: a worker that is let go ---


def test_an_idle_worker_that_is_let_go_leaves_at_once_and_its_place_is_given_up() -> None:
    pool = ready_pool(workers=2)
    assert pool.step(Resized(1), 1.0) == [Retire(W2)]
    assert pool.step(Exited(W2), 2.0) == []


def test_a_worker_that_is_let_go_while_calls_wait_takes_none_of_them() -> None:
    pool = ready_pool(workers=2, threads=2)
    submit(pool, 1, 2, 3, 4, 5)
    pool.step(Resized(1), 1.0)
    assert pool.step(Finished(W2, C2), 2.0) == []
    assert pool.step(Finished(W2, C4), 2.0) == [Retire(W2)]
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, call(5).id, 1)]


def test_a_worker_that_is_let_go_and_does_not_leave_is_killed_after_the_grace() -> None:
    pool = ready_pool(workers=2, graceful_timeout_s=3.0)
    pool.step(Resized(1), 1.0)
    assert pool.step(Ticked(), 4.0) == [Kill(W2, KillReason.RETIRE_TIMEOUT)]
    assert pool.step(Exited(W2), 4.1) == []


def test_the_grace_of_a_worker_that_is_let_go_begins_with_the_end_of_its_last_call() -> None:
    pool = ready_pool(workers=2, graceful_timeout_s=3.0)
    submit(pool, 1, 2)
    pool.step(Resized(1), 1.0)
    assert pool.step(Ticked(), 50.0) == []
    assert pool.step(Finished(W2, C2), 50.0) == [Retire(W2)]
    assert pool.wake_at() == 53.0


def test_a_worker_that_is_let_go_and_dies_with_an_idempotent_call_gives_it_back() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, call(2, idempotent=True))
    pool.step(Resized(1), 1.0)
    assert pool.step(Exited(W2), 2.0) == []
    assert pool.step(Finished(W1, C1), 3.0) == [Dispatch(W1, C2, 2)]


# --- 40-44: a worker that drains while calls go elsewhere ---


def test_calls_go_elsewhere_while_a_worker_drains() -> None:
    pool = ready_pool(workers=2, threads=2)
    submit(pool, 1, 2)
    pool.step(Resized(1), 1.0)
    assert submit(pool, 3, 4, now=2.0) == [Dispatch(W1, C3, 1)]
    assert pool.snapshot().workers[1].running == (C2,)


def test_the_sole_worker_is_replaced_before_it_drains() -> None:
    pool = ready_pool()
    submit(pool, 1)
    assert reload(pool) == [Spawn(W2, (APP,), 1)]
    assert pool.snapshot().workers[0].phase is Phase.READY
    pool.step(Ready(W2), 2.0)
    assert pool.snapshot().workers[0].phase is Phase.DRAINING
    assert submit(pool, 2, now=3.0) == [Dispatch(W2, C2, 1)]


def test_when_the_spare_for_the_sole_worker_fails_that_one_goes_on() -> None:
    pool = ready_pool()
    reload(pool)
    assert pool.step(Exited(W2), 2.0) == [ReportReload(1, W2, is_done=False)]
    assert submit(pool, 1, now=3.0) == [Dispatch(W1, C1, 1)]


def test_a_place_that_is_wanted_again_while_its_worker_drains_is_filled_after_it() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2)
    pool.step(Resized(1), 1.0)
    assert pool.step(Resized(2), 2.0) == []
    assert pool.step(Finished(W2, C2), 3.0) == [Retire(W2)]
    assert pool.step(Exited(W2), 4.0) == [Spawn(W3, (APP,))]


# --- 67, 68, 74, 75: a worker that cannot be started ---


def test_a_failed_start_leaves_the_other_workers_alone_and_their_calls_too() -> None:
    pool = ready_pool(max_restarts=1)
    submit(pool, 1, 2)
    pool.step(Resized(2), 1.0)
    for worker in (W2, W3):
        pool.step(BootFailed(worker), 2.0)
        orders = pool.step(Exited(worker), 2.0)
    assert orders == [ReportCircuit(APP, is_open=True)]
    assert pool.step(Finished(W1, C1), 3.0) == [Dispatch(W1, C2, 1)]


def test_when_starts_fail_too_often_those_that_wait_are_told_and_the_starting_ends() -> None:
    pool = new_pool(max_restarts=1, restart_delay_s=0.0, restart_delay_max_s=30.0)
    submit(pool, 1, 2)
    pool.step(Exited(W1), 1.0)
    orders = pool.step(Exited(W2), 1.0)
    assert orders[0] == ReportCircuit(APP, is_open=True)
    assert only(Refuse, orders) == [Refuse(C1, Refusal.APP_BROKEN), Refuse(C2, Refusal.APP_BROKEN)]
    assert not only(Spawn, orders)
    assert pool.wake_at() == 31.0, "one more try, after the longest delay"


# --- 72, 73, 78: a restart that meets a start ---


def test_a_worker_of_old_code_that_becomes_ready_in_a_reload_is_replaced_like_the_others() -> None:
    pool = new_pool(workers=1)
    pool.step(Ticked(), 0.0)
    assert reload(pool) == [Spawn(W2, (APP,), 1)]
    pool.step(Ready(W1), 2.0)
    assert pool.step(Ready(W2), 3.0) == [CommitReload(1), ReportReload(1), Retire(W1)]


def test_old_code_never_comes_back_after_the_new() -> None:
    pool = new_pool(workers=1)
    pool.step(Ticked(), 0.0)
    reload(pool)
    assert pool.step(Ready(W2), 2.0) == [CommitReload(1), ReportReload(1), Retire(W1)]
    assert pool.step(Ready(W1), 2.1) == [], "it was still booting when it was let go"
    assert pool.step(Exited(W1), 3.0) == []
    assert pool.step(Exited(W2), 4.0) == [Spawn(W3, (APP,), 1)]


def test_a_worker_that_dies_at_boot_in_a_reload_is_followed_by_new_code() -> None:
    pool = new_pool(workers=2)
    pool.step(Ticked(), 0.0)
    reload(pool)
    assert pool.step(Exited(W2), 2.0) == [Spawn(W4, (APP,), 1)]


@pytest.mark.parametrize("count", [2, 5])
def test_restarts_in_a_row_leave_one_generation_and_nobody_twice(count: int) -> None:
    pool = ready_pool()
    for generation in range(1, count + 1):
        (spawn,) = only(Spawn, reload(pool, generation=generation))
        (retire,) = only(Retire, pool.step(Ready(spawn.worker), 2.0))
        pool.step(Exited(retire.worker), 3.0)
    assert [(view.id, view.generation) for view in pool.snapshot().workers] == [(WorkerId(count + 1), count)]


# --- 77: the queue is full ---


def test_a_full_queue_refuses_the_next_call_and_no_other() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, 1, 2)
    assert submit(pool, 3) == [Refuse(C3, Refusal.QUEUE_FULL, retry_after_s=1.0)]
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]
    assert submit(pool, 4, now=1.0) == []
