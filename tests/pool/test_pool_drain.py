from __future__ import annotations

from dirtybus.pool.model import Refusal
from dirtybus.pool.ports import (
    AdmissionClosed,
    BootFailed,
    CancelRequested,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Interrupt,
    Kill,
    KillReason,
    Ready,
    Refuse,
    ReportDrained,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, C4, W1, W2, W3, W4, call, new_pool, ready_pool, submit


def test_a_drain_refuses_new_calls_and_finishes_those_it_took() -> None:
    pool = ready_pool()
    submit(pool, 1, 2)
    assert pool.step(DrainBegun(60.0), 1.0) == []
    assert submit(pool, 3, now=1.0) == [Refuse(C3, Refusal.DRAINING)]
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Finished(W1, C2), 3.0) == [Retire(W1)]
    assert pool.step(Exited(W1), 4.0) == [ReportDrained()]
    assert pool.wake_at() is None


def test_a_drain_of_idle_workers_retires_them_at_once() -> None:
    pool = ready_pool(workers=2)
    assert pool.step(DrainBegun(60.0), 1.0) == [Retire(W1), Retire(W2)]
    assert pool.step(Exited(W1), 2.0) == []
    assert pool.step(Exited(W2), 2.0) == [ReportDrained()]


def test_a_drain_is_reported_once() -> None:
    pool = ready_pool()
    pool.step(DrainBegun(60.0), 1.0)
    pool.step(Exited(W1), 2.0)
    assert pool.step(Ticked(), 3.0) == []
    assert pool.step(DrainBegun(2.0), 3.0) == []
    assert submit(pool, 1, now=3.0) == [Refuse(C1, Refusal.DRAINING)]


def test_a_drain_before_the_first_step_starts_nobody() -> None:
    assert new_pool().step(DrainBegun(60.0), 0.0) == [ReportDrained()]


def test_a_worker_without_work_leaves_while_others_go_on() -> None:
    pool = ready_pool("m:A", "m:B:1", workers=2)
    submit(pool, call(1, "m:B"), call(2, "m:B"))
    assert pool.step(DrainBegun(60.0), 1.0) == [Retire(W2)]
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C2, 1)]


def test_a_dead_worker_is_replaced_in_a_drain_while_calls_wait_for_it() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True), call(2))
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.step(Exited(W1), 2.0) == [Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 3.0) == [Dispatch(W2, C1, 2)]
    pool.step(Finished(W2, C1), 4.0)
    assert pool.step(Finished(W2, C2), 4.0) == [Retire(W2)]


def test_a_dead_worker_is_not_replaced_in_a_drain_when_nothing_waits_for_it() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.step(Exited(W1), 2.0) == [Refuse(C1, Refusal.WORKER_LOST, W1, 1), ReportDrained()]


def test_a_seat_that_nobody_needed_any_more_is_filled_for_a_call_back_from_a_crash() -> None:
    pool = ready_pool(workers=2)
    submit(pool, call(1, idempotent=True))
    assert pool.step(DrainBegun(60.0), 1.0) == [Retire(W2)]
    assert pool.step(Exited(W2), 1.5) == []
    assert pool.step(Exited(W1), 2.0) == [Spawn(W3, (APP,)), Spawn(W4, (APP,))]


def test_at_the_deadline_all_that_is_left_is_refused_and_killed() -> None:
    pool = ready_pool(workers=1, threads=2)
    submit(pool, 1, 2, 3)
    pool.step(CancelRequested(C2), 0.0)
    pool.step(DrainBegun(4.0), 1.0)
    assert pool.wake_at() == 4.0
    assert pool.step(Ticked(), 4.0) == [
        Refuse(C3, Refusal.DRAINING),
        Refuse(C1, Refusal.DRAINING, W1, 1),
        Kill(W1, KillReason.DRAIN_DEADLINE),
    ]
    assert pool.step(Finished(W1, C1), 4.1) == []
    assert pool.step(Exited(W1), 4.2) == [ReportDrained()]


def test_a_worker_that_still_boots_at_the_deadline_has_one_second_to_leave() -> None:
    pool = new_pool()
    submit(pool, 1)
    pool.step(DrainBegun(4.0), 1.0)
    assert pool.step(Ticked(), 4.0) == [Refuse(C1, Refusal.DRAINING), Retire(W1)]
    assert pool.wake_at() == 5.0
    assert pool.step(Ticked(), 5.0) == [Kill(W1, KillReason.RETIRE_TIMEOUT)]
    assert pool.step(Exited(W1), 5.1) == [ReportDrained()]


def test_a_second_drain_shortens_the_first_and_never_lengthens_it() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(DrainBegun(60.0), 1.0)
    pool.step(DrainBegun(5.0), 2.0)
    pool.step(DrainBegun(90.0), 3.0)
    assert pool.wake_at() == 5.0


def test_a_retired_worker_that_stays_is_killed_after_the_graceful_timeout() -> None:
    pool = ready_pool(graceful_timeout_s=10.0)
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.wake_at() == 11.0
    assert pool.step(Ticked(), 11.0) == [Kill(W1, KillReason.RETIRE_TIMEOUT)]


def test_a_second_drain_shortens_the_time_to_leave() -> None:
    pool = ready_pool(graceful_timeout_s=10.0)
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.step(DrainBegun(2.0), 2.0) == []
    assert pool.step(Ticked(), 3.0) == [Kill(W1, KillReason.RETIRE_TIMEOUT)]


def test_a_second_drain_never_lengthens_the_time_to_leave() -> None:
    pool = ready_pool(graceful_timeout_s=10.0)
    pool.step(DrainBegun(60.0), 1.0)
    pool.step(DrainBegun(30.0), 2.0)
    assert pool.wake_at() == 11.0


def test_a_worker_that_was_leaving_before_the_drain_is_in_a_hurry_too() -> None:
    pool = ready_pool(workers=2, graceful_timeout_s=30.0)
    submit(pool, 1)
    assert pool.step(Resized(1), 0.0) == [Retire(W2)]
    pool.step(DrainBegun(5.0), 1.0)
    pool.step(Ticked(), 5.0)
    assert pool.step(Ticked(), 6.0) == [Kill(W2, KillReason.RETIRE_TIMEOUT)]


def test_a_worker_that_fails_to_boot_in_a_drain_has_no_longer_than_the_drain() -> None:
    pool = new_pool(graceful_timeout_s=30.0)
    submit(pool, 1)
    pool.step(DrainBegun(5.0), 1.0)
    pool.step(BootFailed(W1), 2.0)
    pool.step(Ticked(), 5.0)
    assert pool.step(Ticked(), 6.0) == [Kill(W1, KillReason.RETIRE_TIMEOUT)]


def test_a_stuck_call_is_cut_by_the_deadline_not_by_a_second_kill() -> None:
    pool = ready_pool(cancel_grace_s=2.0)
    submit(pool, 1)
    pool.step(DrainBegun(2.0), 0.0)
    assert pool.step(CancelRequested(C1), 0.0) == [Refuse(C1, Refusal.CANCELLED, W1, 1), Interrupt(W1, C1)]
    assert pool.step(Ticked(), 2.0) == [Kill(W1, KillReason.DRAIN_DEADLINE)]


def test_a_draining_pool_keeps_its_size() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.step(Resized(3), 2.0) == []
    assert pool.size == 1


def test_twenty_running_and_two_hundred_queued_calls_all_end_in_answers() -> None:
    pool = ready_pool(workers=4, threads=5)
    submit(pool, *range(1, 221))
    pool.step(DrainBegun(60.0), 1.0)
    answered = 0
    while busy := [(view.id, view.running[0]) for view in pool.snapshot().workers if view.running]:
        for worker, call_id in busy:
            assert not any(isinstance(order, Refuse) for order in pool.step(Finished(worker, call_id), 2.0))
            answered += 1
    assert answered == 220


def test_the_other_calls_of_a_killed_worker_are_refused_at_the_deadline() -> None:
    pool = ready_pool(threads=2, cancel_grace_s=1.0)
    submit(pool, 1, 4)
    pool.step(CancelRequested(C1), 0.0)
    pool.step(DrainBegun(3.0), 0.0)
    assert pool.step(Ticked(), 1.0) == [Kill(W1, KillReason.STUCK)]
    assert pool.step(Ticked(), 3.0) == [Refuse(C4, Refusal.DRAINING, W1, 1)]


def test_a_drain_releases_at_once_what_it_is_not_to_wait_for_and_waits_for_the_rest() -> None:
    pool = ready_pool(threads=2, cancel_grace_s=5.0)
    submit(pool, call(1, released_by_drain=True), 2, call(3, released_by_drain=True), 4)
    assert pool.step(DrainBegun(60.0), 1.0) == [
        Refuse(C3, Refusal.RELEASED),
        Refuse(C1, Refusal.RELEASED, W1, 1),
        Interrupt(W1, C1),
    ]
    assert pool.step(DrainBegun(60.0), 1.5) == []
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C4, 1)]
    pool.step(Finished(W1, C2), 2.0)
    assert pool.step(Finished(W1, C4), 2.0) == [Retire(W1)]


def test_admission_may_close_before_the_drain_and_only_what_is_not_waited_for_is_refused() -> None:
    pool = ready_pool(threads=2)
    submit(pool, call(1, released_by_drain=True), 2)
    assert pool.step(AdmissionClosed(), 1.0) == [Refuse(C1, Refusal.RELEASED, W1, 1), Interrupt(W1, C1)]
    pool.step(Finished(W1, C1), 2.0)
    assert submit(pool, call(3, released_by_drain=True), 4, now=2.0) == [
        Refuse(C3, Refusal.RELEASED),
        Dispatch(W1, C4, 1),
    ]
    assert pool.step(DrainBegun(60.0), 3.0) == []


def test_a_released_call_that_goes_on_is_killed_after_the_grace() -> None:
    pool = ready_pool(cancel_grace_s=5.0)
    submit(pool, call(1, released_by_drain=True))
    pool.step(DrainBegun(60.0), 1.0)
    assert pool.wake_at() == 6.0
    assert pool.step(Ticked(), 6.0) == [Kill(W1, KillReason.STUCK)]
    assert pool.step(Exited(W1), 6.1) == [ReportDrained()]
