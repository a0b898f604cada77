from __future__ import annotations

from dirtybus.pool.model import OnCancel, Refusal
from dirtybus.pool.ports import (
    BootFailed,
    CancelRequested,
    Dispatch,
    Exited,
    Finished,
    Interrupt,
    Kill,
    KillReason,
    Ready,
    Refuse,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, W1, W2, call, new_pool, ready_pool, submit


def test_a_call_whose_time_is_up_before_it_starts_never_runs() -> None:
    pool = ready_pool()
    submit(pool, call(1), call(2, expires_at=5.0))
    assert pool.wake_at() == 5.0
    assert pool.step(Ticked(), 5.0) == [Refuse(C2, Refusal.EXPIRED)]
    assert pool.step(Finished(W1, C1), 6.0) == []


def test_a_call_that_is_handed_in_too_late_never_runs() -> None:
    assert submit(ready_pool(), call(1, expires_at=2.0), now=2.0) == [Refuse(C1, Refusal.EXPIRED)]


def test_a_running_call_past_its_deadline_is_settled_at_once_and_keeps_its_slot() -> None:
    pool = ready_pool()
    submit(pool, call(1, expires_at=5.0), call(2))
    assert pool.step(Ticked(), 5.0) == [Refuse(C1, Refusal.TIMED_OUT, W1, 1), Interrupt(W1, C1)]
    assert repr(pool) == "<Pool 1 ready, 0 booting, 1 running, 1 queued>"


def test_the_end_of_a_settled_call_frees_its_slot_and_is_no_second_end() -> None:
    pool = ready_pool(cancel_grace_s=2.0)
    submit(pool, call(1, expires_at=5.0), call(2))
    pool.step(Ticked(), 5.0)
    assert pool.step(Finished(W1, C1), 6.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Ticked(), 7.0) == []
    assert pool.wake_at() is None


def test_an_answer_at_the_moment_of_the_deadline_is_an_answer() -> None:
    pool = ready_pool()
    submit(pool, call(1, expires_at=5.0))
    assert pool.step(Finished(W1, C1), 5.0) == []


def test_a_worker_stuck_in_a_call_past_the_grace_is_killed_once() -> None:
    pool = ready_pool(cancel_grace_s=2.0)
    submit(pool, call(1, expires_at=5.0))
    pool.step(Ticked(), 5.0)
    assert pool.wake_at() == 7.0
    assert pool.step(Ticked(), 6.9) == []
    assert pool.step(Ticked(), 7.0) == [Kill(W1, KillReason.STUCK)]
    assert pool.step(Ticked(), 99.0) == []
    assert pool.step(Exited(W1), 99.0) == [Spawn(W2, (APP,))]


def test_without_any_grace_the_kill_comes_with_the_interrupt() -> None:
    pool = ready_pool(cancel_grace_s=0.0)
    submit(pool, 1)
    assert pool.step(CancelRequested(C1), 1.0) == [
        Refuse(C1, Refusal.CANCELLED, W1, 1),
        Interrupt(W1, C1),
        Kill(W1, KillReason.STUCK),
    ]


def test_a_worker_whose_call_may_be_waited_for_is_not_killed() -> None:
    pool = ready_pool()
    submit(pool, call(1, expires_at=5.0, on_cancel=OnCancel.WAIT))
    pool.step(Ticked(), 5.0)
    assert pool.wake_at() is None
    assert pool.step(Ticked(), 500.0) == []


def test_a_killed_worker_gets_no_call_even_if_a_slot_frees() -> None:
    pool = ready_pool(threads=2, cancel_grace_s=2.0)
    submit(pool, 1, 2, 3)
    pool.step(CancelRequested(C1), 0.0)
    pool.step(Ticked(), 2.0)
    assert pool.step(Finished(W1, C2), 2.1) == []


def test_a_deadline_in_a_killed_worker_is_still_told_to_the_caller_alone() -> None:
    pool = ready_pool(threads=2, cancel_grace_s=2.0)
    submit(pool, call(1), call(2, expires_at=3.0))
    pool.step(CancelRequested(C1), 0.0)
    pool.step(Ticked(), 2.0)
    assert pool.step(Ticked(), 3.0) == [Refuse(C2, Refusal.TIMED_OUT, W1, 1)]
    assert pool.step(Ticked(), 9.0) == []


def test_a_cancelled_running_call_is_settled_interrupted_and_given_the_grace() -> None:
    pool = ready_pool(cancel_grace_s=2.0)
    submit(pool, call(1, expires_at=50.0))
    assert pool.step(CancelRequested(C1), 1.0) == [Refuse(C1, Refusal.CANCELLED, W1, 1), Interrupt(W1, C1)]
    assert pool.wake_at() == 3.0
    assert pool.step(CancelRequested(C1), 1.5) == []


def test_a_cancelled_queued_call_never_runs() -> None:
    pool = ready_pool()
    submit(pool, 1, 2, 3)
    assert pool.step(CancelRequested(C2), 0.0) == [Refuse(C2, Refusal.CANCELLED)]
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C3, 1)]


def test_a_cancel_after_the_end_is_no_news() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(Finished(W1, C1), 1.0)
    assert pool.step(CancelRequested(C1), 2.0) == []


def test_a_worker_that_boots_for_too_long_is_killed_and_replaced() -> None:
    pool = new_pool(boot_timeout_s=10.0)
    pool.step(Ticked(), 1.0)
    assert pool.wake_at() == 11.0
    assert pool.step(Ticked(), 11.0) == [Kill(W1, KillReason.BOOT_TIMEOUT)]
    assert pool.step(Ready(W1), 11.1) == []
    assert pool.step(Exited(W1), 11.2) == [Spawn(W2, (APP,))]


def test_a_worker_that_became_ready_in_time_is_left_alone() -> None:
    pool = new_pool(boot_timeout_s=10.0)
    pool.step(Ticked(), 0.0)
    pool.step(Ready(W1), 9.0)
    assert pool.wake_at() is None
    assert pool.step(Ticked(), 99.0) == []


def test_without_a_boot_timeout_a_worker_may_boot_for_ever() -> None:
    pool = new_pool(boot_timeout_s=None)
    pool.step(Ticked(), 0.0)
    assert pool.wake_at() is None


def test_a_worker_that_failed_to_boot_and_stays_is_killed() -> None:
    pool = new_pool(boot_timeout_s=None, graceful_timeout_s=4.0)
    pool.step(Ticked(), 0.0)
    pool.step(BootFailed(W1), 1.0)
    assert pool.wake_at() == 5.0
    assert pool.step(Ticked(), 5.0) == [Kill(W1, KillReason.RETIRE_TIMEOUT)]
