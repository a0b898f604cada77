"""What the pool does when more comes than it can run: bounds, who yields, how long one may wait, when to come again."""

from __future__ import annotations

from typing import Any

import pytest

from dirtybus.pool.model import ActionKind, Call, CallId, Refusal
from dirtybus.pool.pace import Pace
from dirtybus.pool.ports import CancelRequested, Cause, Dispatch, Exited, Finished, Ready, Refuse, Ticked
from tests.pool.boxes import C1, C2, C3, C4, W1, W2, call, only, ready_pool, submit


def heavy(number: int, size: int, **fields: Any) -> Call:
    return call(number, size=size, **fields)


def full(number: int, retry_after_s: float = 1.0) -> Refuse:
    return Refuse(CallId(number), Refusal.QUEUE_FULL, retry_after_s=retry_after_s)


def dropped(number: int) -> Refuse:
    return Refuse(CallId(number), Refusal.QUEUE_FULL, cause=Cause.DROPPED, retry_after_s=1.0)


# --- bounds ---


def test_arguments_that_are_too_much_together_are_refused() -> None:
    pool = ready_pool(max_queued_payload_bytes=1024)
    submit(pool, 1, heavy(2, 1000))
    assert submit(pool, heavy(3, 25)) == [full(3)]
    assert submit(pool, heavy(4, 24)) == []
    assert pool.snapshot().queued_bytes == {"m:App": 1024}


def test_a_call_over_the_bound_in_bytes_waits_alone() -> None:
    pool = ready_pool(max_queued_payload_bytes=1024)
    assert submit(pool, 1, heavy(2, 9999), heavy(3, 0)) == [Dispatch(W1, C1, 1), full(3)]
    assert pool.step(Finished(W1, C1), 0.0) == [Dispatch(W1, C2, 1)]


def test_a_call_that_left_the_queue_gives_its_bytes_back() -> None:
    pool = ready_pool(max_queued_payload_bytes=1024)
    submit(pool, 1, heavy(2, 1000), heavy(3, 24))
    pool.step(CancelRequested(C2), 0.0)
    assert submit(pool, heavy(4, 1000)) == []
    pool.step(Finished(W1, C1), 0.0)
    assert pool.snapshot().queued_bytes == {"m:App": 1000}


def test_a_call_that_was_sent_once_never_counts_again_even_if_it_was_not_begun() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, 1)
    pool.step(Exited(W1, frozenset({C1})), 1.0)
    assert submit(pool, 2, now=1.0) == []
    assert submit(pool, 3, now=1.0) == [full(3)]


# --- the oldest yields ---


def test_the_call_that_has_waited_longest_yields_to_a_newer_one() -> None:
    pool = ready_pool(max_queued=2, queue_full="drop_oldest")
    submit(pool, 1, 2, 3)
    assert submit(pool, 4) == [dropped(2)]
    assert pool.step(Finished(W1, C1), 0.0) == [Dispatch(W1, C3, 1)]


def test_the_lowest_priority_yields_before_the_oldest() -> None:
    pool = ready_pool(max_queued=2, queue_full="drop_oldest")
    submit(pool, 1, call(2, priority=1), 3)
    assert submit(pool, 4) == [dropped(3)]


def test_nobody_yields_to_a_call_of_a_lower_priority() -> None:
    pool = ready_pool(max_queued=2, queue_full="drop_oldest")
    submit(pool, 1, 2, call(3, priority=1))
    assert submit(pool, call(4, priority=-1)) == [full(4)]


def test_as_many_yield_as_the_bytes_take() -> None:
    pool = ready_pool(max_queued_payload_bytes=1024, queue_full="drop_oldest")
    submit(pool, 1, heavy(2, 400), heavy(3, 400), heavy(4, 200))
    assert submit(pool, heavy(5, 800)) == [dropped(2), dropped(3)]


def test_nobody_yields_in_vain() -> None:
    pool = ready_pool(max_queued_payload_bytes=1024, queue_full="drop_oldest")
    submit(pool, 1, heavy(2, 400), heavy(3, 600, priority=1))
    assert submit(pool, heavy(4, 500)) == [full(4)]
    assert pool.snapshot().queued == {"m:App": 2}


def test_a_call_that_comes_back_from_a_crash_does_not_yield() -> None:
    pool = ready_pool(max_queued=1, queue_full="drop_oldest")
    submit(pool, call(1, idempotent=True))
    pool.step(Exited(W1), 1.0)
    submit(pool, 2, now=1.0)
    assert submit(pool, 3, now=1.0) == [dropped(2)]
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C1, 2)]


def test_nobody_yields_to_a_call_that_need_not_wait() -> None:
    pool = ready_pool(max_queued=1, queue_full="drop_oldest")
    submit(pool, 1, 2)
    assert submit(pool, call(3, kind=ActionKind.ASYNC)) == [Dispatch(W1, C3, 1)]


def test_the_pool_says_who_would_have_to_wait_outside() -> None:
    pool = ready_pool("m:App", "m:Other", max_queued=1, queue_full="wait")
    submit(pool, 1)
    assert not pool.is_full_for(call(2), 0.0)
    submit(pool, 2)
    assert pool.is_full_for(call(3), 0.0)
    assert not pool.is_full_for(call(3, kind=ActionKind.ASYNC), 0.0)
    assert not pool.is_full_for(call(3, "m:Other"), 0.0)
    assert submit(pool, 3) == [full(3)]


# --- how long one may wait ---


def test_a_call_that_waited_too_long_is_never_started() -> None:
    pool = ready_pool()
    submit(pool, 1, call(2, starts_by=3.0, expires_at=9.0))
    assert pool.wake_at() == 3.0
    assert pool.step(Finished(W1, C1), 3.0) == [Refuse(C2, Refusal.EXPIRED, cause=Cause.QUEUE_TIMEOUT)]


def test_a_deadline_that_comes_at_the_same_moment_is_the_reason_given() -> None:
    pool = ready_pool()
    submit(pool, 1, call(2, starts_by=3.0, expires_at=3.0))
    assert pool.step(Ticked(), 3.0) == [Refuse(C2, Refusal.EXPIRED)]


def test_a_call_that_was_started_in_time_has_no_limit_of_waiting_any_more() -> None:
    pool = ready_pool()
    submit(pool, call(1, starts_by=3.0, idempotent=True), call(2, starts_by=3.0, idempotent=True))
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C2, 1)]
    pool.step(Exited(W1), 2.5)
    assert only(Refuse, pool.step(Ticked(), 3.0)) == []
    assert pool.step(Ready(W2), 9.0) == [Dispatch(W2, C2, 2)]


def test_a_call_whose_wait_is_over_when_it_comes_is_refused_even_by_an_idle_pool() -> None:
    pool = ready_pool()
    assert submit(pool, call(1, starts_by=2.0), now=2.0) == [Refuse(C1, Refusal.EXPIRED, cause=Cause.QUEUE_TIMEOUT)]


def test_a_call_that_need_not_wait_sets_no_timer_for_it() -> None:
    pool = ready_pool()
    submit(pool, call(1, starts_by=3.0))
    assert pool.wake_at() is None


# --- when to come again ---


def test_a_refused_call_is_told_when_those_before_it_will_have_started() -> None:
    pool = ready_pool(workers=2, max_queued=4)
    submit(pool, 1, now=0.0)
    pool.step(Finished(W1, C1), 2.0)
    submit(pool, 2, 3, 4, 5, 6, 7, now=2.0)
    assert submit(pool, 8, now=2.0) == [full(8, 2.0 * 4 / 2)]


def test_the_newest_runs_weigh_more_than_the_old_ones() -> None:
    pace = Pace()
    pace.note("m:App", 10.0)
    for _ in range(20):
        pace.note("m:App", 1.0)
    assert pace.wait_s("m:App", 1, 1) == pytest.approx(1.1, abs=0.1)


def test_a_guess_is_never_too_short_nor_too_long() -> None:
    pace = Pace()
    pace.note("m:App", 1.0)
    assert pace.wait_s("m:App", 1, 1000) == 0.05
    assert pace.wait_s("m:App", 1000, 1) == 30.0
    assert pace.wait_s("m:App", 1000, 0) == 1.0
    assert pace.wait_s("m:Other", 1000, 1) == 1.0


# --- whose turn it is ---


def test_the_highest_priority_goes_first() -> None:
    pool = ready_pool()
    submit(pool, 1, 2, call(3, priority=1))
    assert pool.step(Finished(W1, C1), 0.0) == [Dispatch(W1, C3, 1)]
    assert pool.step(Finished(W1, C3), 0.0) == [Dispatch(W1, C2, 1)]


def test_ten_thousand_calls_of_one_caller_are_one_call_before_that_of_another() -> None:
    pool = ready_pool()
    submit(pool, *range(1, 10_002))
    late = call(20_000, caller=7)
    submit(pool, late)
    assert pool.step(Finished(W1, C1), 0.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Finished(W1, C2), 0.0) == [Dispatch(W1, late.id, 1)]
    assert pool.step(Finished(W1, late.id), 0.0) == [Dispatch(W1, C3, 1)]


def test_ten_thousand_calls_for_another_app_are_one_call_before_it_too() -> None:
    pool = ready_pool("m:A", "m:B")
    submit(pool, *(call(n, "m:A") for n in range(1, 10_002)))
    late = call(20_000, "m:B", caller=7)
    submit(pool, late)
    pool.step(Finished(W1, C1), 0.0)
    assert pool.step(Finished(W1, C2), 0.0) == [Dispatch(W1, late.id, 1)]


def test_a_crash_costs_no_caller_its_turn() -> None:
    pool = ready_pool(threads=2)
    submit(pool, call(1, idempotent=True, caller=1), call(2, idempotent=True, caller=1))
    submit(pool, call(3, caller=2), call(4, caller=1))
    pool.step(Exited(W1), 1.0)
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C1, 2), Dispatch(W2, C2, 2)]
    assert pool.step(Finished(W2, C1), 2.0) == [Dispatch(W2, C3, 1)]
    assert pool.step(Finished(W2, C2), 2.0) == [Dispatch(W2, C4, 1)]


def test_a_run_that_is_repeated_is_no_second_turn() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True, caller=1), call(2, caller=1), call(3, caller=2))
    pool.step(Exited(W1), 1.0)
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C1, 2)]
    assert pool.step(Finished(W2, C1), 2.0) == [Dispatch(W2, C2, 1)]
    assert pool.step(Finished(W2, C2), 2.0) == [Dispatch(W2, C3, 1)]


def test_a_crash_gives_the_next_call_of_its_caller_no_better_turn() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True, caller=1), call(2, caller=2))
    pool.step(Exited(W1), 1.0)
    submit(pool, call(3, caller=1), now=1.0)
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C1, 2)]
    assert pool.step(Finished(W2, C1), 2.0) == [Dispatch(W2, C2, 1)]
