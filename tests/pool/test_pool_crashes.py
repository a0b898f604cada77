from __future__ import annotations

import pytest

from dirtybus.config import DirtyConfig
from dirtybus.pool import Pool
from dirtybus.pool.model import Refusal, WorkerId
from dirtybus.pool.ports import (
    BootFailed,
    CancelRequested,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Kill,
    KillReason,
    Ready,
    Refuse,
    Spawn,
    Streamed,
    Submitted,
    Ticked,
    Unresponsive,
)
from tests.pool.boxes import APP, C1, C2, C3, W1, W2, W3, call, only, ready_pool, specs, submit


def test_a_dead_worker_costs_its_running_call_and_no_other() -> None:
    pool = ready_pool()
    submit(pool, *range(1, 52))
    assert pool.step(Exited(W1), 1.0) == [Refuse(C1, Refusal.WORKER_LOST, W1, 1), Spawn(W2, (APP,))]
    answered = only(Dispatch, pool.step(Ready(W2), 2.0))
    for _ in range(49):
        answered += only(Dispatch, pool.step(Finished(W2, answered[-1].call), 3.0))
    assert [order.call for order in answered] == list(range(2, 52))


def test_a_call_that_the_dead_worker_had_not_begun_goes_to_another_whatever_it_does() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2)
    assert pool.step(Exited(W1, frozenset({C1})), 1.0) == [Spawn(W3, (APP,))]
    assert pool.step(Finished(W2, C2), 1.5) == [Dispatch(W2, C1, 1)]


def test_a_death_is_not_held_against_a_call_that_had_not_begun() -> None:
    pool = ready_pool(workers=1, crash_limit=2, restart_delay_s=0.0)
    submit(pool, call(1, idempotent=True))
    for worker in (1, 2, 3):
        pool.step(Exited(WorkerId(worker), frozenset({C1})), 1.0)
        assert pool.step(Ready(WorkerId(worker + 1)), 1.0) == [Dispatch(WorkerId(worker + 1), C1, 1)]
    assert pool.step(Exited(WorkerId(4)), 1.0) == [Spawn(WorkerId(5), (APP,))]  # the first that counts: no poison yet


def test_a_dead_worker_is_replaced_by_one_with_the_same_apps() -> None:
    pool = ready_pool("m:A", "m:B:1", "m:C:2", workers=3)
    assert {view.id: view.apps for view in pool.snapshot().workers} == {
        1: ("m:A", "m:B"),
        2: ("m:A", "m:C"),
        3: ("m:A", "m:C"),
    }
    assert pool.step(Exited(W2), 1.0) == [Spawn(WorkerId(4), ("m:A", "m:C"))]
    assert pool.step(Exited(W1), 1.0) == [Spawn(WorkerId(5), ("m:A", "m:B"))]


def test_an_idempotent_call_runs_again_before_all_that_came_later() -> None:
    pool = ready_pool(workers=2)
    submit(pool, call(1, idempotent=True), call(2), call(3))
    assert pool.step(Exited(W1), 1.0) == [Spawn(W3, (APP,))]
    assert pool.step(Finished(W2, C2), 1.5) == [Dispatch(W2, C1, 2)]
    assert pool.step(Ready(W3), 2.0) == [Dispatch(W3, C3, 1)]


def test_an_idempotent_call_moves_at_once_to_a_worker_with_room() -> None:
    pool = ready_pool(workers=2)
    submit(pool, call(1, idempotent=True))
    assert pool.step(Exited(W1), 1.0) == [Dispatch(W2, C1, 2), Spawn(W3, (APP,))]


def test_calls_back_from_two_crashes_stand_in_their_first_order() -> None:
    pool = ready_pool(workers=2)
    submit(pool, call(1, idempotent=True), call(2, idempotent=True), call(3))
    pool.step(Exited(W1), 1.0)
    pool.step(Exited(W2), 1.1)
    assert pool.step(Ready(W3), 2.0) == [Dispatch(W3, C1, 2)]
    assert pool.step(Finished(W3, C1), 2.1) == [Dispatch(W3, C2, 2)]


def test_a_call_back_from_a_crash_takes_no_place_in_the_queue() -> None:
    pool = ready_pool(max_queued=1)
    submit(pool, call(1, idempotent=True))
    pool.step(Exited(W1), 1.0)
    assert submit(pool, 2, now=1.0) == []
    assert submit(pool, 3, now=1.0) == [Refuse(C3, Refusal.QUEUE_FULL, retry_after_s=1.0)]


def test_a_call_that_killed_its_workers_is_poison_at_the_limit() -> None:
    pool = ready_pool(crash_limit=2)
    submit(pool, call(1, idempotent=True))
    pool.step(Exited(W1), 1.0)
    pool.step(Ready(W2), 2.0)
    assert pool.step(Exited(W2), 3.0)[0] == Refuse(C1, Refusal.POISONED, W2, 2)


def test_a_call_that_streamed_is_not_run_again() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True))
    pool.step(Streamed(C1), 0.5)
    assert pool.step(Exited(W1), 1.0)[0] == Refuse(C1, Refusal.WORKER_LOST, W1, 1)


def test_a_stream_of_an_unknown_call_is_no_news() -> None:
    assert ready_pool().step(Streamed(C1), 0.5) == []


def test_a_call_whose_time_is_up_is_not_run_again() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True, expires_at=1.0))
    assert pool.step(Exited(W1), 1.0)[0] == Refuse(C1, Refusal.WORKER_LOST, W1, 1)


def test_a_call_keeps_its_deadline_through_a_crash() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True, expires_at=9.0))
    pool.step(Exited(W1), 1.0)
    assert pool.step(Ticked(), 9.0) == [Refuse(C1, Refusal.EXPIRED, None, 1)]


def test_a_call_of_a_worker_killed_for_another_one_is_run_again_and_not_blamed() -> None:
    pool = ready_pool(threads=2, cancel_grace_s=2.0, crash_limit=1)
    submit(pool, call(1), call(2, idempotent=True), call(3, idempotent=True))
    pool.step(CancelRequested(C1), 0.0)
    assert pool.step(Ticked(), 2.0) == [Kill(W1, KillReason.STUCK)]
    assert pool.step(Exited(W1), 2.1) == [Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 3.0) == [Dispatch(W2, C2, 2), Dispatch(W2, C3, 1)]


def test_the_death_of_a_worker_ends_no_call_twice() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(CancelRequested(C1), 0.5)
    assert pool.step(Exited(W1), 1.0) == [Spawn(W2, (APP,))]
    assert pool.wake_at() == 121.0  # the boot of the next one: the grace is over with the worker


def test_a_reply_that_was_late_for_its_own_crash_is_ignored() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True))
    pool.step(Exited(W1), 1.0)
    pool.step(Ready(W2), 2.0)
    assert pool.step(Finished(W1, C1), 2.1) == []
    assert repr(pool) == "<Pool 1 ready, 0 booting, 1 running, 0 queued>"


def die_at_once(pool: Pool, *, times: int) -> list[float]:
    """Let every worker die at boot, and return how long the seat stayed empty each time."""
    now, delays = 0.0, []
    spawned = only(Spawn, pool.step(Ticked(), now))
    for _ in range(times):
        spawned = only(Spawn, pool.step(Exited(spawned[0].worker), now))
        wake_at = now if spawned else pool.wake_at()
        assert wake_at is not None
        delays.append(wake_at - now)
        now = wake_at
        spawned = spawned or only(Spawn, pool.step(Ticked(), now))
    return delays


def test_restarts_come_at_once_and_then_ever_later_up_to_the_cap() -> None:
    pool = Pool(DirtyConfig(boot_timeout_s=None, restart_delay_s=0.5, restart_delay_max_s=3.0), specs())
    assert die_at_once(pool, times=6) == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_shortens_a_delay_by_up_to_a_half() -> None:
    config = DirtyConfig(boot_timeout_s=None, restart_delay_s=1.0, restart_delay_max_s=8.0)
    assert die_at_once(Pool(config, specs(), jitter=lambda: 0.0), times=4) == [0.0, 0.5, 1.0, 2.0]
    assert die_at_once(Pool(config, specs(), jitter=lambda: 0.5), times=4) == [0.0, 0.75, 1.5, 3.0]


def test_a_failed_boot_and_its_exit_are_one_death() -> None:
    pool = ready_pool(restart_delay_s=1.0)
    pool.step(Exited(W1), 0.1)
    pool.step(BootFailed(W2), 0.2)
    assert pool.step(Exited(W2), 0.3) == []
    assert pool.snapshot().seats[0].deaths == 2
    assert pool.snapshot().seats[0].spawn_in_s == 1.0
    assert pool.step(Ticked(), 1.3) == [Spawn(W3, (APP,))]


@pytest.mark.parametrize(("lived_s", "deaths"), [(9.9, 2), (10.0, 1)])
def test_a_worker_that_was_ready_for_long_enough_clears_its_seats_record(lived_s: float, deaths: int) -> None:
    pool = ready_pool(healthy_after_s=10.0)
    pool.step(Exited(W1), 0.0)
    pool.step(Ready(W2), 5.0)
    pool.step(Exited(W2), 5.0 + lived_s)
    assert pool.snapshot().seats[0].deaths == deaths


def test_one_seats_deaths_delay_no_other_seat() -> None:
    pool = ready_pool(workers=2)
    pool.step(Exited(W1), 0.0)
    pool.step(Exited(W3), 0.1)
    assert only(Spawn, pool.step(Exited(W2), 0.2)) == [Spawn(WorkerId(4), (APP,))]


def test_a_call_submitted_in_the_dark_waits_through_the_delay() -> None:
    pool = ready_pool(restart_delay_s=2.0)
    pool.step(Exited(W1), 0.0)
    pool.step(Exited(W2), 0.0)
    assert pool.step(Submitted(call(2)), 0.0) == []
    pool.step(Ticked(), 2.0)
    assert pool.step(Ready(W3), 3.0) == [Dispatch(W3, C2, 1)]


def test_a_new_call_does_not_wait_for_a_worker_whose_backoff_is_long() -> None:
    pool = ready_pool(workers=1, restart_delay_s=1.0, healthy_after_s=100.0)
    now = 0.0
    for worker in (1, 2):  # the second replacement comes after 1 s, the third after 2 s, the fourth after 4 s
        pool.step(Exited(WorkerId(worker)), now)
        pool.step(Ticked(), now := now + 1.0)
        pool.step(Ready(WorkerId(worker + 1)), now)
    pool.step(Exited(W3), now)
    assert submit(pool, 1, now=now) == [], "two seconds are worth the wait"
    pool.step(Ticked(), now := now + 2.0)
    pool.step(Exited(WorkerId(4)), now)
    assert submit(pool, 2, now=now) == [Refuse(C2, Refusal.NO_WORKERS)]
    assert submit(pool, 3, now=now + 2.5) == []


def test_a_worker_with_calls_that_gives_no_sign_of_life_is_killed_once() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1)
    assert pool.step(Unresponsive(W2), 1.0) == [], "it has no calls; whoever waits for it is nobody"
    assert pool.step(Unresponsive(W1), 1.0) == [Kill(W1, KillReason.HEARTBEAT)]
    assert pool.step(Unresponsive(W1), 2.0) == []
    assert Refuse(C1, Refusal.WORKER_LOST, W1, 1) in pool.step(Exited(W1), 2.0)


def test_a_silent_worker_that_was_let_go_is_killed_too() -> None:
    pool = ready_pool()
    submit(pool, 1)
    pool.step(DrainBegun(60.0), 0.0)
    assert pool.step(Unresponsive(W1), 1.0) == [Kill(W1, KillReason.HEARTBEAT)]


def test_a_call_that_silences_its_workers_is_poison() -> None:
    pool = ready_pool(crash_limit=2, restart_delay_s=0.0)
    submit(pool, call(1, idempotent=True))
    for worker, now in ((W1, 1.0), (W2, 2.0)):
        pool.step(Ready(worker), now)
        pool.step(Unresponsive(worker), now)
        orders = pool.step(Exited(worker), now)
    assert Refuse(C1, Refusal.POISONED, W2, 2) in orders


def test_a_call_whose_workers_are_always_gone_before_they_begin_it_ends_after_ten() -> None:
    pool = ready_pool(workers=1, max_restarts=None, restart_delay_s=0, restart_delay_max_s=0)
    sent = only(Dispatch, submit(pool, call(1, idempotent=True)))
    for _ in range(9):
        spawned = pool.step(Exited(sent[0].worker, frozenset({C1})), 1.0)
        sent = only(Dispatch, pool.step(Ready(only(Spawn, spawned)[0].worker), 1.0))
        assert sent[0].attempt == 1, "a run that never was does not count"
    refused = only(Refuse, pool.step(Exited(sent[0].worker, frozenset({C1})), 2.0))
    assert refused == [Refuse(C1, Refusal.NO_WORKERS)]
    assert C1 not in pool._calls
