"""The circuit of an app: opened by failures in a row, tried again by probes, closed by the first that is ready."""

from __future__ import annotations

import pytest

from dirtybus.pool import Pool
from dirtybus.pool.model import CallId, Refusal, WorkerId
from dirtybus.pool.ports import (
    BootFailed,
    CancelRequested,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Kill,
    KillReason,
    Order,
    Ready,
    Refuse,
    ReportCircuit,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, W1, W2, W3, W4, call, only, ready_pool, submit

W5 = WorkerId(5)
A, B = "m:A", "m:B"


def fragile(*apps: str, **settings: object) -> Pool:
    """Return a ready pool with no delays but that of probes, which come every 10 s; two failures open a circuit."""
    given = {"max_restarts": 1, "restart_delay_s": 0.0, "restart_delay_max_s": 10.0, "boot_timeout_s": None}
    return ready_pool(*apps, **{**given, **settings})


def fail(pool: Pool, *workers: WorkerId, now: float = 1.0, app: str = "") -> list[Order]:
    """Let these die soon after their start, one after the other; returns the orders after the last."""
    orders: list[Order] = []
    for worker in workers:
        orders = pool.step(Exited(worker, blamed=(app,) if app else ()), now)
    return orders


# --- when it opens ---


def test_it_opens_with_one_failure_more_than_allowed_and_not_before() -> None:
    pool = fragile(max_restarts=2)
    assert fail(pool, W1, W2) == [Spawn(W3, (APP,))]
    assert fail(pool, W3) == [ReportCircuit(APP, is_open=True)]


def test_failures_longer_ago_than_the_period_are_forgotten() -> None:
    pool = fragile(restart_period_s=5.0)
    fail(pool, W1, now=1.0)
    assert fail(pool, W2, now=6.1) == [Spawn(W3, (APP,))]
    assert fail(pool, W3, now=7.0) == [ReportCircuit(APP, is_open=True)]


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_it_never_opens(limit: int | None) -> None:
    pool = fragile(max_restarts=limit)
    assert fail(pool, *(WorkerId(number) for number in range(1, 30))) == [Spawn(WorkerId(30), (APP,))]


def test_a_worker_that_was_told_to_leave_is_no_failure() -> None:
    pool = fragile(workers=2)
    for size in (1, 2) * 3:
        for retired in only(Retire, pool.step(Resized(size), 1.0)):
            pool.step(Exited(retired.worker), 1.0)
    assert not pool.step(Exited(W1), 1.0)[1:]


def test_a_worker_killed_for_a_stuck_call_is_no_failure() -> None:
    pool = fragile(cancel_grace_s=1.0)
    for number in (1, 2, 3):
        submit(pool, number, now=number * 3.0)
        pool.step(CancelRequested(call(number).id), number * 3.0)
        assert pool.step(Ticked(), number * 3.0 + 1.0) == [Kill(WorkerId(number), KillReason.STUCK)]
        assert pool.step(Exited(WorkerId(number)), number * 3.0 + 1.0) == [Spawn(WorkerId(number + 1), (APP,))]
        pool.step(Ready(WorkerId(number + 1)), number * 3.0 + 1.0)


def test_a_worker_killed_because_it_did_not_boot_in_time_is_one() -> None:
    pool = fragile(boot_timeout_s=5.0)
    fail(pool, W1)
    assert pool.step(Ticked(), 6.0) == [Kill(W2, KillReason.BOOT_TIMEOUT)]
    assert fail(pool, W2, now=6.1) == [ReportCircuit(APP, is_open=True)]


def test_a_worker_that_had_been_ready_for_long_is_none() -> None:
    pool = fragile(healthy_after_s=10.0)
    for worker in (1, 2, 3):
        assert fail(pool, WorkerId(worker), now=worker * 10.0) == [Spawn(WorkerId(worker + 1), (APP,))]
        pool.step(Ready(WorkerId(worker + 1)), worker * 10.0)


def test_an_answered_call_heals() -> None:
    pool = fragile(workers=2)
    fail(pool, W1)
    submit(pool, 1)
    pool.step(Finished(W2, C1), 1.0)
    assert fail(pool, W3) == [Spawn(W4, (APP,))], "the first failure again"


def test_a_worker_that_had_answered_is_no_failure() -> None:
    pool = fragile()
    fail(pool, W1)
    pool.step(Ready(W2), 1.0)
    submit(pool, 1, now=1.0)
    pool.step(Finished(W2, C1), 1.0)
    assert fail(pool, W2) == [Spawn(W3, (APP,))]


def test_the_answers_of_another_app_in_the_same_worker_excuse_nothing() -> None:
    pool = fragile(A, B)
    for worker in (W1, W2):
        pool.step(Ready(worker), 1.0)
        submit(pool, call(int(worker), B), now=1.0)
        pool.step(Finished(worker, CallId(worker)), 1.0)
        orders = fail(pool, worker, app=A)
    assert ReportCircuit(A, is_open=True) in orders


# --- whom it concerns ---


def test_only_the_blamed_app_is_shut_and_the_others_live_on_without_it() -> None:
    pool = fragile(A, B)
    fail(pool, W1, app=A)
    assert fail(pool, W2, app=A) == [ReportCircuit(A, is_open=True), Spawn(W3, (B,))]
    pool.step(Ready(W3), 1.5)
    assert submit(pool, call(1, A), call(2, B), now=2.0) == [Refuse(C1, Refusal.APP_BROKEN), Dispatch(W3, C2, 1)]


def test_when_nobody_is_blamed_all_apps_of_the_worker_are_suspect() -> None:
    pool = fragile(A, B)
    assert fail(pool, W1, W2) == [ReportCircuit(A, is_open=True), ReportCircuit(B, is_open=True)]


def test_a_seat_whose_only_app_is_shut_stays_empty() -> None:
    pool = fragile(A, f"{B}:1", workers=1)
    fail(pool, W1, W2)
    assert pool.step(Ticked(), 5.0) == []
    assert repr(pool) == "<Pool 0 ready, 0 booting, 0 running, 0 queued>"


# --- calls ---


def test_calls_fail_fast_once_no_ready_worker_has_the_app() -> None:
    pool = fragile()
    fail(pool, W1)
    submit(pool, 1, now=1.0)
    assert fail(pool, W2) == [ReportCircuit(APP, is_open=True), Refuse(C1, Refusal.APP_BROKEN)]
    assert submit(pool, 2, now=2.0) == [Refuse(C2, Refusal.APP_BROKEN)]


def test_calls_are_served_while_a_ready_worker_has_the_app() -> None:
    pool = fragile(workers=2)
    assert fail(pool, W1, W3) == [ReportCircuit(APP, is_open=True)]
    assert submit(pool, 1, 2, now=1.0) == [Dispatch(W2, C1, 1)]
    assert pool.step(Finished(W2, C1), 2.0) == [Dispatch(W2, C2, 1)]


def test_the_end_of_the_last_worker_with_the_app_ends_the_calls_that_wait() -> None:
    pool = fragile(workers=2)
    fail(pool, W1, W3)
    submit(pool, 1, 2, now=1.0)
    assert pool.step(Exited(W2), 2.0) == [Refuse(C1, Refusal.WORKER_LOST, W2, 1), Refuse(C2, Refusal.APP_BROKEN)]


# --- probes ---


def test_a_probe_comes_after_the_longest_delay() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    assert pool.wake_at() == 11.0
    assert pool.step(Ticked(), 10.9) == []
    assert pool.step(Ticked(), 11.0) == [Spawn(W3, (APP,))]


def test_a_probe_that_is_ready_closes_the_circuit() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    pool.step(Ticked(), 11.0)
    assert submit(pool, 1, now=11.5) == [Refuse(C1, Refusal.APP_BROKEN)], "half-open is not closed"
    assert pool.step(Ready(W3), 12.0) == [ReportCircuit(APP, is_open=False)]
    assert submit(pool, 2, now=12.5) == [Dispatch(W3, C2, 1)]


def test_a_probe_that_fails_leaves_it_open_until_the_next() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    pool.step(Ticked(), 11.0)
    pool.step(BootFailed(W3), 12.0)
    assert pool.step(Exited(W3), 12.0) == [], "it was open already"
    assert pool.wake_at() == 22.0
    assert pool.step(Ticked(), 22.0) == [Spawn(W4, (APP,))]


def test_only_one_probe_of_an_app_is_under_way() -> None:
    pool = fragile(workers=3)
    fail(pool, W1, W2, W3, W4, WorkerId(5), WorkerId(6))
    assert len(only(Spawn, pool.step(Ticked(), 11.0))) == 1
    assert pool.step(Ticked(), 60.0) == []


def test_a_failure_soon_after_the_probe_opens_it_again() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    pool.step(Ticked(), 11.0)
    pool.step(Ready(W3), 12.0)
    assert fail(pool, W3, now=13.0) == [ReportCircuit(APP, is_open=True)]


def test_an_answer_after_the_probe_lets_the_counting_begin_anew() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    pool.step(Ticked(), 11.0)
    pool.step(Ready(W3), 12.0)
    submit(pool, 1, now=12.0)
    pool.step(Finished(W3, C1), 12.5)
    pool.step(Exited(W3), 13.0)
    pool.step(Ready(W4), 14.0)
    assert fail(pool, W4, now=14.5) == [Spawn(W5, (APP,))]


def test_beside_a_worker_that_lacks_the_app_the_probe_is_its_heir() -> None:
    pool = fragile(A, B)
    fail(pool, W1, W2, app=A)
    pool.step(Ready(W3), 1.5)
    assert pool.step(Ticked(), 11.0) == [Spawn(W4, (A, B))]
    assert pool.step(Ready(W4), 12.0) == [ReportCircuit(A, is_open=False), Retire(W3)]


def test_a_probe_that_fails_costs_the_other_apps_nothing() -> None:
    pool = fragile(A, B)
    fail(pool, W1, W2, app=A)
    pool.step(Ready(W3), 1.5)
    pool.step(Ticked(), 11.0)
    assert pool.step(Exited(W4, blamed=(A,)), 12.0) == []
    assert submit(pool, call(1, B), now=12.5) == [Dispatch(W3, C1, 1)]


def test_after_the_probe_each_seat_gets_its_app_back_one_by_one() -> None:
    pool = fragile(A, B, workers=3)
    fail(pool, W1, W2, W3, W4, app=A)
    for worker in (5, 6, 7):
        pool.step(Ready(WorkerId(worker)), 1.5)
    assert [view.apps for view in pool.snapshot().workers] == [(B,)] * 3
    todo, most = pool.step(Ticked(), 11.0), 0
    for order in todo:
        most = max(most, len(pool.snapshot().workers))
        if isinstance(order, Spawn):
            todo += pool.step(Ready(order.worker), 12.0)
        elif isinstance(order, Retire):
            todo += pool.step(Exited(order.worker), 12.0)
    assert [view.apps for view in pool.snapshot().workers] == [(A, B)] * 3
    assert most == 4, "one more than its size, which is the surge"


def test_heirs_leave_room_for_a_worker_that_is_due_soon() -> None:
    pool = fragile(A, B, workers=4, restart_delay_s=1.0, healthy_after_s=60.0)
    fail(pool, W1, W2, W3, W4, W5, app=A)
    pool.step(Ticked(), 2.0)
    for worker in (6, 7, 8, 9):
        pool.step(Ready(WorkerId(worker)), 2.0)
    assert pool.step(Ticked(), 11.0) == [Spawn(WorkerId(10), (A, B))]
    assert pool.step(Ready(WorkerId(10)), 12.0) == [ReportCircuit(A, is_open=False), Retire(WorkerId(9))]
    assert fail(pool, WorkerId(8), app=B, now=12.0) == [], "its seat is filled in a second"
    assert pool.step(Exited(WorkerId(9)), 12.1) == [Spawn(WorkerId(11), (A, B))]
    assert pool.step(Ticked(), 13.0) == [Spawn(WorkerId(12), (A, B))]
    assert len(pool.snapshot().workers) == 5


def test_in_a_drain_nobody_is_probed() -> None:
    pool = fragile()
    fail(pool, W1, W2, now=1.0)
    pool.step(DrainBegun(60.0), 2.0)
    assert pool.step(Ticked(), 11.0) == []
