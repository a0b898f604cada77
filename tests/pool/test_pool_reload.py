"""A rolling reload: every worker is replaced while it serves, and a generation that cannot boot changes nothing."""

from __future__ import annotations

from typing import Any

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
    ReportReload,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, C3, C4, W1, W2, W3, W4, call, new_pool, only, ready_pool, specs, submit

W5, W6 = WorkerId(5), WorkerId(6)


def reload(pool: Pool, *apps: str, now: float = 1.0, generation: int = 1, **settings: Any) -> list[Order]:
    """Begin a reload to these apps and settings; without any of its own the size stays."""
    config = DirtyConfig(**{"workers": pool.size, **settings})
    fact = ReloadBegun(generation, config, tuple(specs(*apps)), config.workers, {})
    return pool.step(fact, now)


def see_through(pool: Pool, orders: list[Order], *, now: float = 2.0) -> list[Order]:
    """Let each new worker boot and each old one leave, as long as there are orders; returns all of those."""
    seen = list(orders)
    for order in seen:
        if isinstance(order, Spawn):
            seen += pool.step(Ready(order.worker), now)
        elif isinstance(order, Retire):
            seen += pool.step(Exited(order.worker), now)
    return seen


def generations(pool: Pool) -> dict[WorkerId, int]:
    return {view.id: view.generation for view in pool.snapshot().workers}


# --- one by one ---


def test_a_holder_is_let_go_when_its_heir_is_ready_and_the_next_heir_comes_when_it_is_gone() -> None:
    pool = ready_pool(workers=2)
    assert reload(pool) == [Spawn(W3, (APP,), 1)]
    assert pool.step(Ready(W3), 2.0) == [CommitReload(1), Retire(W1)]
    assert pool.step(Exited(W1), 3.0) == [Spawn(W4, (APP,), 1)]
    assert pool.step(Ready(W4), 4.0) == [ReportReload(1), Retire(W2)]
    assert pool.step(Exited(W2), 5.0) == []
    assert generations(pool) == {W3: 1, W4: 1}


@pytest.mark.parametrize(("surge", "heirs"), [(1, 1), (2, 2), (9, 3)])
def test_as_many_heirs_boot_at_once_as_the_surge_allows(surge: int, heirs: int) -> None:
    assert len(only(Spawn, reload(ready_pool(workers=3), max_surge=surge))) == heirs


def test_a_busy_holder_ends_its_call_and_gets_no_other() -> None:
    pool = ready_pool()
    submit(pool, 1, 2)
    reload(pool)
    assert pool.step(Ready(W2), 2.0) == [CommitReload(1), Dispatch(W2, C2, 1), ReportReload(1)]
    assert pool.step(Finished(W1, C1), 3.0) == [Retire(W1)]
    assert submit(pool, 3, now=3.0) == []
    assert pool.step(Finished(W2, C2), 4.0) == [Dispatch(W2, C3, 1)]


def test_a_holder_serves_while_its_heir_boots() -> None:
    pool = ready_pool()
    reload(pool)
    assert submit(pool, 1, now=1.5) == [Dispatch(W1, C1, 1)]


def test_a_call_goes_to_the_newest_generation_that_has_room() -> None:
    pool = ready_pool(workers=2, threads=2)
    submit(pool, 1)  # in the first worker
    reload(pool, threads=2)
    pool.step(Ready(W3), 2.0)
    assert submit(pool, 2, 3, 4, now=2.5) == [Dispatch(W3, C2, 1), Dispatch(W3, C3, 1), Dispatch(W2, C4, 1)]


def test_a_call_of_a_dead_holder_is_run_again_by_the_new_generation() -> None:
    pool = ready_pool()
    submit(pool, call(1, idempotent=True))
    reload(pool)
    pool.step(Ready(W2), 2.0)
    assert pool.step(Exited(W1), 3.0) == [Dispatch(W2, C1, 2)]


def test_without_a_surge_a_holder_goes_first_and_its_heir_comes_once_it_is_gone() -> None:
    pool = ready_pool(workers=2)
    assert reload(pool, max_surge=0, max_unavailable=1) == [Retire(W1)]
    assert pool.step(Exited(W1), 2.0) == [Spawn(W3, (APP,), 1)]
    assert pool.step(Ready(W3), 3.0) == [CommitReload(1), Retire(W2)]
    assert pool.step(Exited(W2), 4.0) == [Spawn(W4, (APP,), 1)]
    assert pool.step(Ready(W4), 5.0) == [ReportReload(1)]


def test_no_more_holders_go_early_than_may_be_unavailable() -> None:
    pool = ready_pool(workers=4)
    assert len(only(Retire, reload(pool, max_surge=0, max_unavailable=2))) == 2
    pool.step(Exited(W1), 2.0)
    assert pool.snapshot().count(Phase.READY) == 2


def test_with_a_surge_the_last_worker_of_an_app_does_not_go_early() -> None:
    apps = ("m:A", "m:B:1", "m:C:1")
    pool = ready_pool(*apps, workers=3)
    orders = reload(pool, *apps, max_surge=1, max_unavailable=2)
    assert orders == [Spawn(W4, ("m:A", "m:B"), 1), Retire(W3)], "worker 2 is the only one with C"


# --- the first heir decides ---


def test_when_the_first_heir_fails_nothing_has_changed() -> None:
    pool = ready_pool("m:A", threads=1)
    assert reload(pool, "m:B", threads=2) == [Spawn(W2, ("m:B",), 1)]
    pool.step(BootFailed(W2), 2.0)
    assert pool.step(Exited(W2), 2.1) == [ReportReload(1, W2, is_done=False)]
    assert submit(pool, call(1, "m:A"), call(2, "m:A"), call(3, "m:B"), now=3.0) == [
        Dispatch(W1, C1, 1),
        Refuse(C3, Refusal.UNKNOWN_APP),
    ]


def test_a_failed_reload_is_not_held_against_the_apps() -> None:
    pool = ready_pool(max_restarts=1)
    for generation in (1, 2, 3):
        (spawn,) = only(Spawn, reload(pool, generation=generation))
        assert pool.step(Exited(spawn.worker), 2.0) == [ReportReload(generation, spawn.worker, is_done=False)]


def test_an_heir_that_does_not_boot_in_time_fails_the_reload() -> None:
    pool = ready_pool(boot_timeout_s=5.0)
    reload(pool)
    assert pool.step(Ticked(), 6.0) == [Kill(W2, KillReason.BOOT_TIMEOUT)]
    assert pool.step(Exited(W2), 6.1) == [ReportReload(1, W2, is_done=False)]


def test_the_other_heirs_of_a_failed_generation_are_told_to_leave() -> None:
    pool = ready_pool(workers=2)
    reload(pool, max_surge=2)
    assert pool.step(Exited(W3), 2.0) == [ReportReload(1, W3, is_done=False), Retire(W4)]
    assert pool.step(Ready(W4), 2.1) == [], "it was ready a moment too late"
    assert pool.step(Exited(W4), 2.2) == []
    assert generations(pool) == {W1: 0, W2: 0}


def test_of_two_heirs_that_cannot_boot_the_second_is_no_news() -> None:
    pool = ready_pool(workers=2)
    reload(pool, max_surge=2)
    pool.step(BootFailed(W3), 2.0)
    pool.step(BootFailed(W4), 2.0)
    assert pool.step(Exited(W3), 2.1) == [ReportReload(1, W3, is_done=False)]
    assert pool.step(Exited(W4), 2.2) == []
    assert pool.step(Exited(W2), 2.3) == [Spawn(W5, (APP,), 0)], "without a delay"


def test_a_holder_that_dies_beside_an_heir_that_was_told_to_leave_is_replaced_at_once() -> None:
    pool = ready_pool(workers=2)
    reload(pool, max_surge=2)
    pool.step(Exited(W3), 2.0)
    assert pool.step(Exited(W2), 20.0) == [Spawn(W5, (APP,), 0)]
    assert pool.step(Exited(W4), 21.0) == []


def test_when_a_later_heir_fails_the_remaining_old_ones_serve_on() -> None:
    pool = ready_pool(workers=2)
    pool.step(Exited(W1), see_first_heir(pool))
    assert pool.step(Exited(W4), 4.0) == [ReportReload(1, W4, is_done=False)]
    assert generations(pool) == {W2: 0, W3: 1}
    assert submit(pool, 1, 2, now=5.0) == [Dispatch(W3, C1, 1), Dispatch(W2, C2, 1)]
    assert pool.step(Exited(W2), 30.0)[-1] == Spawn(W5, (APP,), 1), "what was committed holds"


def see_first_heir(pool: Pool) -> float:
    reload(pool)
    pool.step(Ready(W3), 2.0)
    return 3.0


# --- other apps, other sizes ---


def test_an_app_that_is_new_is_served_once_its_first_worker_is_ready() -> None:
    pool = ready_pool("m:A")
    reload(pool, "m:A", "m:B")
    assert submit(pool, call(1, "m:B"), now=1.5) == [Refuse(C1, Refusal.UNKNOWN_APP)]
    pool.step(Ready(W2), 2.0)
    assert submit(pool, call(2, "m:B"), now=2.5) == [Dispatch(W2, C2, 1)]


def test_calls_queued_for_an_app_that_the_reload_removed_are_refused_once_nobody_has_it() -> None:
    pool = ready_pool("m:A", "m:B", workers=2)
    submit(pool, *(call(number, "m:B") for number in (1, 2, 3, 4)))
    reload(pool, "m:A")
    pool.step(Ready(W3), 2.0)
    assert pool.step(Finished(W1, C1), 3.0) == [Retire(W1)]
    pool.step(Exited(W1), 4.0)
    assert pool.step(Finished(W2, C2), 5.0) == [Dispatch(W2, C3, 1)], "an old worker still has it"
    assert Refuse(C4, Refusal.APP_BROKEN) in pool.step(Ready(W4), 6.0)
    assert submit(pool, call(5, "m:B"), now=7.0)[0].why is Refusal.UNKNOWN_APP  # type: ignore[union-attr]


def test_an_app_that_moves_to_another_seat_has_a_worker_all_the_time() -> None:
    pool = ready_pool("m:A:1", "m:B:1", workers=2)
    assert reload(pool, "m:B:1", "m:A:1") == [Spawn(W3, ("m:B",), 1)]
    assert pool.step(Ready(W3), 2.0) == [CommitReload(1), Retire(W1)], "its heir is there"
    see_through(pool, [Retire(W1)], now=3.0)
    assert {view.apps for view in pool.snapshot().workers if view.phase is Phase.READY} == {("m:A",), ("m:B",)}


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 2)])
def test_a_reload_brings_its_size(before: int, after: int) -> None:
    pool = ready_pool(workers=before)
    orders = see_through(pool, reload(pool, workers=after))
    assert ReportReload(1) in orders
    assert (pool.size, list(generations(pool).values())) == (after, [1] * after)


def test_a_worker_on_a_seat_that_is_for_no_app_any_more_leaves_at_the_end() -> None:
    pool = ready_pool(workers=2)
    orders = see_through(pool, reload(pool, f"{APP}:1"))
    assert Retire(W2) in orders
    assert (pool.size, generations(pool)) == (2, {W3: 1})


def test_a_smaller_size_holds_only_once_the_reload_is_done() -> None:
    pool = ready_pool(workers=3)
    assert reload(pool, workers=2) == [Spawn(W4, (APP,), 1)], "nobody is spared for a generation that may fail"
    assert pool.step(Ready(W4), 2.0) == [CommitReload(1), Retire(W1), Retire(W2)]
    pool.step(Exited(W1), 3.0)
    assert pool.step(Exited(W5), 4.0) == [ReportReload(1, W5, is_done=False), Spawn(W6, (APP,), 1)]
    pool.step(Exited(W2), 4.0)
    assert (pool.size, generations(pool)) == (3, {W3: 0, W4: 1, W6: 1})
    assert pool.step(Exited(W3), 30.0) == [Spawn(WorkerId(7), (APP,), 1)], "the third seat is still one"


def test_fewer_workers_than_before_are_never_more_than_before_and_the_surge() -> None:
    pool = ready_pool(workers=3)
    reload(pool, workers=1)
    pool.step(Ready(W4), 2.0)
    assert generations(pool) == {W1: 0, W2: 0, W3: 0, W4: 1}


def test_a_size_asked_for_during_a_reload_comes_after_it() -> None:
    pool = ready_pool()
    reload(pool)
    assert pool.step(Resized(2), 1.5) == []
    assert pool.size == 2, "that is what is aimed at"
    assert pool.step(Ready(W2), 2.0) == [CommitReload(1), ReportReload(1), Retire(W1), Spawn(W3, (APP,), 1)]


def test_a_size_asked_for_during_a_reload_that_fails_comes_after_it_too() -> None:
    pool = ready_pool()
    reload(pool)
    pool.step(Resized(2), 1.5)
    assert Spawn(W3, (APP,), 0) in pool.step(Exited(W2), 2.0)


# --- what comes between ---


def test_a_second_reload_is_refused_while_one_runs() -> None:
    pool = ready_pool()
    reload(pool)
    assert reload(pool, generation=2) == [ReportReload(2, is_done=False)]
    assert ReportReload(1) in pool.step(Ready(W2), 2.0)


def test_a_drain_ends_the_reload_and_none_begins_in_it() -> None:
    pool = ready_pool()
    reload(pool)
    assert pool.step(DrainBegun(60.0), 2.0) == [ReportReload(1, is_done=False), Retire(W2), Retire(W1)]
    assert reload(pool, generation=2, now=3.0) == [ReportReload(2, is_done=False)]


def test_a_vacant_seat_in_its_backoff_gets_the_new_code_at_once() -> None:
    pool = ready_pool(restart_delay_s=20.0)
    pool.step(Exited(W1), 0.1)
    pool.step(Exited(W2), 0.2)
    assert reload(pool) == [Spawn(W3, (APP,), 1)]
    assert pool.step(Ready(W3), 2.0) == [CommitReload(1), ReportReload(1)]


def test_a_holder_that_dies_while_its_heir_boots_is_not_replaced_by_its_like() -> None:
    pool = ready_pool()
    reload(pool)
    assert pool.step(Exited(W1), 1.5) == []
    assert pool.step(Ready(W2), 2.0) == [CommitReload(1), ReportReload(1)]


def test_a_holder_that_dies_before_its_turn_is_followed_by_the_new_generation() -> None:
    pool = ready_pool(workers=2)
    reload(pool)
    assert pool.step(Exited(W2), 1.5) == [Spawn(W4, (APP,), 1)]


def test_a_new_worker_that_dies_during_the_rest_of_the_reload_has_its_backoff() -> None:
    pool = ready_pool(workers=2, max_restarts=None)
    reload(pool, restart_delay_s=1.0)
    pool.step(Ready(W3), 2.0)
    pool.step(Exited(W1), 2.2)
    assert pool.step(Exited(W3), 2.5) == [Spawn(W5, (APP,), 1)], "the first death is free"
    pool.step(Ready(W5), 3.0)
    assert pool.step(Exited(W5), 3.5) == []
    assert pool.step(Ticked(), 4.5) == [Spawn(W6, (APP,), 1)]


def test_workers_that_still_boot_when_a_reload_begins_are_replaced_too() -> None:
    pool = new_pool(workers=2)
    pool.step(Ticked(), 0.0)
    assert reload(pool) == [Spawn(W3, (APP,), 1)]
    orders = pool.step(Ready(W3), 2.0)
    assert orders == [CommitReload(1), Retire(W1)]
    see_through(pool, orders)
    assert set(generations(pool).values()) == {1}


def test_reloads_one_after_the_other_count_up() -> None:
    pool = ready_pool()
    for generation in (1, 2, 3):
        assert ReportReload(generation) in see_through(pool, reload(pool, generation=generation))
    assert list(generations(pool).values()) == [3]
