from __future__ import annotations

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import Phase, WorkerId
from dirtybus.pool.ports import (
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Kill,
    KillReason,
    Ready,
    ReloadBegun,
    ReportDrained,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, W1, W2, W3, W4, boot, call, new_pool, only, ready_pool, specs, submit


def test_more_workers_get_the_apps_without_a_limit() -> None:
    pool = ready_pool("m:A", "m:B:1")
    assert pool.step(Resized(3), 1.0) == [Spawn(W2, ("m:A",)), Spawn(W3, ("m:A",))]


def test_more_workers_than_the_limits_allow_are_idle_seats() -> None:
    pool = ready_pool("m:A:1")
    assert pool.step(Resized(3), 1.0) == []
    assert pool.snapshot().idle_seats == (1, 2)
    assert pool.size == 3


def test_fewer_workers_means_that_the_idle_ones_go_first() -> None:
    pool = ready_pool(workers=3)
    submit(pool, 1, 2, 3)
    pool.step(Finished(W2, C2), 0.5)
    assert pool.step(Resized(2), 1.0) == [Retire(W2)]


def test_among_idle_workers_the_newest_seat_goes_first() -> None:
    assert ready_pool(workers=3).step(Resized(1), 1.0) == [Retire(W3), Retire(W2)]


def test_a_worker_that_still_boots_goes_before_a_ready_one() -> None:
    pool = new_pool(workers=2)
    pool.step(Ticked(), 0.0)
    pool.step(Ready(W2), 1.0)
    assert pool.step(Resized(1), 2.0) == [Retire(W1)]


def test_a_vacant_seat_goes_before_any_worker() -> None:
    pool = ready_pool(workers=2)
    pool.step(Exited(W1), 0.0)
    pool.step(Exited(W3), 0.0)
    assert pool.step(Resized(1), 0.1) == []
    assert pool.step(Ticked(), 60.0) == []
    assert repr(pool) == "<Pool 1 ready, 0 booting, 0 running, 0 queued>"
    assert pool.snapshot().count(Phase.READY) == 1


def test_a_busy_worker_that_must_go_finishes_its_call_and_gets_no_other() -> None:
    pool = ready_pool(workers=2)
    submit(pool, 1, 2, 3)
    assert pool.step(Resized(1), 1.0) == []
    assert pool.snapshot().workers[1].phase is Phase.DRAINING
    assert pool.step(Finished(W2, C2), 2.0) == [Retire(W2)]
    assert pool.step(Finished(W1, C1), 2.0) == [Dispatch(W1, C3, 1)]
    assert pool.step(Exited(W2), 3.0) == []


def test_a_retired_worker_that_stays_is_killed_and_not_replaced() -> None:
    pool = ready_pool(workers=2, graceful_timeout_s=5.0)
    pool.step(Resized(1), 1.0)
    assert pool.step(Ticked(), 6.0) == [Kill(W2, KillReason.RETIRE_TIMEOUT)]
    assert pool.step(Exited(W2), 6.1) == []
    assert pool.snapshot().size == 1


def test_a_pool_is_not_shrunk_below_what_an_app_asks_for() -> None:
    pool = ready_pool("m:A", "m:Heavy:3", workers=4)
    assert pool.smallest_size() == 3
    assert pool.why_not(2) == "Cannot decrease below 3 workers (required by app specs)"
    assert pool.why_not(3) is None
    assert pool.step(Resized(1), 1.0) == [Retire(W4)]
    assert pool.size == 3


def test_the_seats_of_limited_apps_stay_where_they_are() -> None:
    pool = ready_pool("m:A", "m:B:1", "m:C:1", workers=4)
    assert pool.step(Resized(2), 1.0) == [Retire(W4), Retire(W3)]


def test_the_last_worker_of_an_app_stays() -> None:
    pool = ready_pool()
    assert pool.why_not(0) == "Cannot decrease below 1 worker (required by app specs)"
    assert pool.step(Resized(0), 1.0) == []
    assert pool.size == 1


def test_a_seat_that_is_wanted_again_is_filled_once_its_old_worker_left() -> None:
    pool = ready_pool(workers=2)
    pool.step(Resized(1), 1.0)
    assert pool.step(Resized(2), 1.5) == []
    assert pool.step(Exited(W2), 2.0) == [Spawn(W3, (APP,))]
    assert pool.snapshot().seats[1].deaths == 0


def test_growing_past_seats_that_leave_adds_only_what_is_missing() -> None:
    pool = ready_pool(workers=2)
    pool.step(Resized(1), 1.0)
    assert pool.step(Resized(3), 1.5) == [Spawn(W3, (APP,))]


def test_a_new_worker_takes_waiting_calls_when_it_is_ready() -> None:
    pool = ready_pool()
    submit(pool, call(1), call(2))
    orders = pool.step(Resized(2), 1.0)
    assert orders == [Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C2, 1)]


def test_the_size_that_is_already_there_changes_nothing() -> None:
    assert ready_pool(workers=2).step(Resized(2), 1.0) == []


def test_worker_ids_never_come_twice() -> None:
    pool = ready_pool(workers=2)
    pool.step(Resized(1), 1.0)
    pool.step(Exited(W2), 2.0)
    orders = pool.step(Resized(2), 3.0)
    assert orders == [Spawn(WorkerId(3), (APP,))]
    boot(pool, orders, now=4.0)
    assert [view.id for view in pool.snapshot().workers] == [1, 3]


# --- how many boot at once ---


def test_workers_boot_so_many_at_a_time() -> None:
    pool = new_pool(workers=3, max_starting=1)
    assert pool.step(Ticked(), 0.0) == [Spawn(W1, (APP,))]
    assert pool.step(Ready(W1), 1.0) == [Spawn(W2, (APP,))]
    assert pool.step(Exited(W2), 2.0) == [Spawn(W3, (APP,))]  # the next in line, before the replacement
    assert pool.step(Ready(W3), 3.0) == [Spawn(W4, (APP,))]
    assert pool.step(Ready(W4), 4.0) == []
    assert pool.snapshot().count(Phase.READY) == 3


def test_one_that_hangs_while_it_boots_keeps_the_others_no_longer_than_its_limit() -> None:
    pool = new_pool(workers=2, max_starting=1, boot_timeout_s=5.0)
    pool.step(Ticked(), 0.0)
    assert pool.step(Ticked(), 5.0) == [Kill(W1, KillReason.BOOT_TIMEOUT), Spawn(W2, (APP,))]


def test_heirs_of_a_reload_boot_so_many_at_a_time_too() -> None:
    pool = ready_pool(workers=3, max_surge=3, max_starting=2)
    pool.step(Ready(W3), 0.0)  # it was started when one of the first was ready
    config = DirtyConfig(workers=3, max_surge=3, max_starting=2)
    orders = pool.step(ReloadBegun(1, config, tuple(specs()), 3), 1.0)
    assert orders == [Spawn(W4, (APP,), 1), Spawn(WorkerId(5), (APP,), 1)]
    assert only(Spawn, pool.step(Ready(W4), 2.0)) == [Spawn(WorkerId(6), (APP,), 1)]


def test_who_waits_for_the_turn_sets_no_timer_and_keeps_no_drain() -> None:
    pool = new_pool(workers=2, max_starting=1, boot_timeout_s=0)
    pool.step(Ticked(), 0.0)
    assert pool.wake_at() is None
    pool.step(DrainBegun(60.0), 1.0)
    pool.step(Ready(W1), 2.0)
    assert ReportDrained() in pool.step(Exited(W1), 3.0)
