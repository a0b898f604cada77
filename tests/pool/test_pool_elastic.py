"""An elastic pool, case by case: growing, making room, shrinking, limits that change, and the way back from zero."""

from __future__ import annotations

from typing import Any

import pytest

from dirtybus.batch import Batch
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError
from dirtybus.pool import Pool
from dirtybus.pool.model import ActionKind, CallId, Phase, WorkerId
from dirtybus.pool.ports import (
    Bounded,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Ready,
    ReportDrained,
    Resized,
    Retire,
    Spawn,
    Ticked,
)
from dirtybus.pool.usage import Usage
from tests.pool.boxes import APP, C1, C2, C3, W1, W2, W3, W4, boot, call, only, specs, submit

A, B, C = "m:A", "m:B", "m:C"


def elastic(*apps: str, size: tuple[int, int], **settings: Any) -> Pool:
    """Return a pool between the two sizes, whose first workers became ready at 0.0."""
    pool = Pool(DirtyConfig(pool_size=size, **settings), specs(*apps))
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    return pool


def dynamic(*apps: str, size: tuple[int, int], **settings: Any) -> Pool:
    return elastic(*apps, size=size, placement="dynamic", **settings)


def leave(pool: Pool, *workers: WorkerId, now: float) -> list[Any]:
    return [order for worker in workers for order in pool.step(Exited(worker), now)]


# --- static placement ---


def test_it_begins_with_its_least_number() -> None:
    assert elastic(size=(2, 5)).size == 2
    assert elastic(size=(0, 5)).size == 0


def test_the_first_call_brings_a_worker_and_is_held_until_that_is_ready() -> None:
    pool = elastic(size=(0, 2))
    assert submit(pool, 1, now=1.0) == [Spawn(W1, (APP,))]
    assert pool.step(Ready(W1), 3.0) == [Dispatch(W1, C1, 1)]


def test_calls_that_wait_bring_one_more_worker_after_a_moment() -> None:
    pool = elastic(size=(1, 3), scale_up_after_s=0.5)
    assert submit(pool, 1, 2, 3, now=1.0) == [Dispatch(W1, C1, 1)]
    assert pool.wake_at() == 1.5
    assert pool.step(Ticked(), 1.5) == [Spawn(W2, (APP,))]
    assert pool.step(Ticked(), 1.9) == []  # two wait, one of them for the worker that is coming
    assert pool.step(Ticked(), 2.0) == [Spawn(W3, (APP,))]


def test_no_worker_comes_for_calls_that_were_short_enough() -> None:
    pool = elastic(size=(1, 3), scale_up_after_s=0.5)
    submit(pool, 1, 2, now=1.0)
    assert pool.step(Finished(W1, C1), 1.4) == [Dispatch(W1, C2, 1)]
    assert pool.step(Ticked(), 9.0) == []


def test_calls_that_waited_before_do_not_count_for_those_that_wait_now() -> None:
    pool = elastic(size=(1, 3), scale_up_after_s=0.5)
    submit(pool, 1, 2, now=1.0)
    pool.step(Finished(W1, C1), 1.2)
    assert submit(pool, 3, now=5.0) == []
    assert pool.wake_at() == 5.5
    assert pool.step(Ticked(), 5.5) == [Spawn(W2, (APP,))]


def test_a_worker_that_is_coming_counts_with_all_its_threads() -> None:
    pool = elastic(size=(0, 3), threads=2, scale_up_after_s=0.0)
    assert submit(pool, 1, 2) == [Spawn(W1, (APP,))]
    assert submit(pool, 3) == [Spawn(W2, (APP,))]


def test_async_calls_need_no_more_workers_than_their_bound_says() -> None:
    pool = elastic(size=(0, 3), async_concurrency=2, scale_up_after_s=0.0)
    calls = [call(n, kind=ActionKind.ASYNC) for n in (1, 2, 3)]
    assert submit(pool, *calls) == [Spawn(W1, (APP,)), Spawn(W2, (APP,))]


def test_the_most_is_the_most() -> None:
    pool = elastic(size=(0, 2), scale_up_after_s=0.0)
    assert len(only(Spawn, submit(pool, *range(1, 20)))) == 2
    assert pool.step(Ticked(), 100.0) == []


def test_who_is_idle_for_too_long_leaves_and_the_least_stay() -> None:
    pool = elastic(size=(1, 3), max_idle_time_s=10.0, scale_up_after_s=0.0)
    boot(pool, submit(pool, 1, 2, 3), now=0.0)
    pool.step(Finished(W2, C2), 4.0)
    pool.step(Finished(W1, C1), 5.0)
    pool.step(Finished(W3, C3), 6.0)
    assert pool.wake_at() == 14.0
    assert pool.step(Ticked(), 14.0) == [Retire(W2)]
    assert pool.step(Ticked(), 15.0) == [Retire(W1)]
    assert pool.step(Ticked(), 99.0) != [Retire(W3)]


def test_nothing_ticks_when_nobody_can_leave() -> None:
    pool = elastic(size=(1, 3), max_idle_time_s=10.0, boot_timeout_s=0)
    pool.step(Ticked(), 50.0)
    assert pool.wake_at() is None


def test_no_idle_time_means_that_nobody_leaves() -> None:
    pool = elastic(size=(0, 3), max_idle_time_s=0)
    boot(pool, submit(pool, 1), now=0.0)
    pool.step(Finished(W1, C1), 1.0)
    assert pool.step(Ticked(), 1e6) == []
    assert pool.wake_at() is None


def test_the_first_in_line_works_so_that_the_others_can_leave() -> None:
    pool = elastic(size=(0, 2), max_idle_time_s=10.0, scale_up_after_s=0.0)
    boot(pool, submit(pool, 1, 2), now=0.0)
    pool.step(Finished(W1, C1), 1.0)
    pool.step(Finished(W2, C2), 1.0)
    for number, now in enumerate((5.0, 9.0, 11.5), start=3):
        orders = submit(pool, number, now=now)
        assert Dispatch(W1, CallId(number), 1) in orders
        pool.step(Finished(W1, CallId(number)), now)
    assert pool.snapshot().count(Phase.READY) == 1


def test_limited_apps_keep_their_workers_and_the_others_come_and_go() -> None:
    pool = elastic("m:Big:1", APP, size=(0, 3), max_idle_time_s=5.0, scale_up_after_s=0.0)
    assert pool.size == 1
    orders = submit(pool, *(call(n, APP) for n in (1, 2)))
    assert only(Spawn, orders) == [Spawn(W2, (APP,))]
    boot(pool, orders, now=0.0)
    pool.step(Finished(W2, C2), 1.0)
    pool.step(Finished(W1, C1), 1.0)
    assert pool.step(Ticked(), 6.0) == [Retire(W2)]


# --- numbers that somebody asks for ---


def test_a_number_that_was_asked_for_is_the_least_from_then_on() -> None:
    pool = elastic(size=(1, 4), max_idle_time_s=5.0)
    boot(pool, pool.step(Resized(3), 0.0), now=0.0)
    assert pool.step(Ticked(), 60.0) == []
    assert len(only(Retire, pool.step(Resized(2), 61.0))) == 1
    assert pool.size == 2


@pytest.mark.parametrize(("asked", "size"), [(0, 1), (9, 4)])
def test_a_number_beyond_the_limits_is_moved_to_them(asked: int, size: int) -> None:
    pool = elastic(size=(1, 4))
    assert pool.why_not(asked) == f"the pool has from 1 to 4 workers, not {asked}"
    pool.step(Resized(asked), 1.0)
    assert pool.size == size


def test_a_new_most_lets_go_the_idle_first_and_the_busy_when_they_are_done() -> None:
    pool = elastic(size=(1, 3), scale_up_after_s=0.0)
    boot(pool, submit(pool, 1, 2, 3), now=0.0)
    pool.step(Finished(W2, C2), 1.0)
    assert pool.step(Bounded(1, 1), 2.0) == [Retire(W2)]
    assert pool.step(Finished(W3, C3), 3.0) == [Retire(W3)]
    leave(pool, W2, W3, now=4.0)
    assert [worker.id for worker in pool.snapshot().workers] == [W1]
    submit(pool, 4, 5, 6, now=5.0)
    assert pool.step(Ticked(), 9.0) == []  # they wait: there may be no more
    assert only(Spawn, pool.step(Bounded(1, 2), 10.0)) == [Spawn(W4, (APP,))]


def test_a_process_that_leaves_still_counts_so_that_there_are_never_more_than_the_most() -> None:
    pool = elastic(size=(0, 1), max_idle_time_s=5.0)
    boot(pool, submit(pool, 1), now=0.0)
    pool.step(Finished(W1, C1), 0.0)
    assert pool.step(Ticked(), 5.0) == [Retire(W1)]
    assert submit(pool, 2, now=5.1) == []
    assert pool.step(Exited(W1), 6.0) == [Spawn(W2, (APP,))]


# --- dynamic placement ---


def test_each_worker_holds_one_app_and_the_fewest_of_each_come_first() -> None:
    pool = dynamic(A + ":1-2", B, C + ":2-3", size=(0, 5))
    assert [worker.apps for worker in pool.snapshot().workers] == [(A,), (C,), (C,)]


def test_the_least_number_is_filled_with_apps_that_have_the_fewest() -> None:
    pool = dynamic(A + ":1-2", B, size=(3, 5))
    assert [worker.apps for worker in pool.snapshot().workers] == [(A,), (B,), (A,)]


def test_in_a_full_pool_an_idle_worker_makes_room_for_an_app_that_has_none() -> None:
    pool = dynamic(A, B, size=(0, 1))
    boot(pool, submit(pool, call(1, A)), now=0.0)
    pool.step(Finished(W1, C1), 0.5)
    assert submit(pool, call(2, B), now=1.0) == [Retire(W1)]
    assert leave(pool, W1, now=1.1) == [Spawn(W2, (B,))]
    assert pool.step(Ready(W2), 2.0) == [Dispatch(W2, C2, 1)]


def test_the_idle_worker_of_the_least_used_app_makes_room() -> None:
    pool = dynamic(A, B, C, size=(0, 2))
    boot(pool, submit(pool, call(1, A), call(2, B)), now=0.0)
    pool.step(Finished(W1, C1), 0.1)
    for number in range(10, 14):  # B is used more, though A was idle for longer
        pool.step(Finished(W2, CallId(2 if number == 10 else number - 1)), 0.2)
        submit(pool, call(number, B), now=0.2)
    pool.step(Finished(W2, CallId(13)), 0.3)
    assert submit(pool, call(3, C), now=1.0) == [Retire(W1)]


def test_an_idle_worker_makes_room_before_one_of_an_app_that_has_more() -> None:
    pool = dynamic(A, B, C, size=(0, 3), scale_up_after_s=0.0)
    boot(pool, submit(pool, call(1, A), call(2, A), call(3, B)), now=0.0)
    pool.step(Finished(W3, C3), 1.0)
    assert submit(pool, call(4, C), now=2.0) == [Retire(W3)]


def test_what_was_used_long_ago_counts_little() -> None:
    usage = Usage()
    for _ in range(8):
        usage.note(A, 0.0)
    usage.note(B, 240.0)
    assert usage.of(A, 240.0) == 0.5 < usage.of(B, 240.0) == 1.0
    assert usage.of(C, 240.0) == 0.0


def test_a_busy_worker_is_never_interrupted_it_gets_no_more_calls() -> None:
    pool = dynamic(A, B, size=(0, 1))
    boot(pool, submit(pool, call(1, A)), now=0.0)
    assert submit(pool, call(2, B), call(3, A), now=1.0) == []
    assert pool.step(Finished(W1, C1), 2.0) == [Retire(W1)]
    assert leave(pool, W1, now=2.1) == [Spawn(W2, (B,))]


def test_a_call_that_came_earlier_is_served_before_its_worker_makes_room() -> None:
    pool = dynamic(A, B, size=(0, 1))
    boot(pool, submit(pool, call(1, A), call(2, A), call(3, B)), now=0.0)
    assert pool.step(Finished(W1, C1), 1.0) == [Dispatch(W1, C2, 1)]
    assert pool.step(Finished(W1, C2), 2.0) == [Retire(W1)]


def test_the_fewest_of_an_app_never_make_room() -> None:
    pool = dynamic(A + ":1-1", B, C, size=(1, 2))
    boot(pool, submit(pool, call(1, B)), now=0.0)
    pool.step(Finished(W2, C1), 0.5)
    assert submit(pool, call(2, C), now=1.0) == [Retire(W2)]


def test_an_app_with_a_worker_gets_another_of_one_that_was_idle_for_a_second() -> None:
    pool = dynamic(A, B, size=(0, 2), scale_up_after_s=0.1)
    boot(pool, submit(pool, call(1, A), call(2, B)), now=0.0)
    pool.step(Finished(W2, C2), 5.0)
    submit(pool, call(3, A), now=5.2)
    assert pool.step(Ticked(), 5.9) == []
    assert pool.wake_at() == 6.0
    assert pool.step(Ticked(), 6.0) == [Retire(W2)]
    assert leave(pool, W2, now=6.1) == [Spawn(W3, (A,))]


def test_an_app_gets_no_more_than_its_most() -> None:
    pool = dynamic(A + ":0-2", B, size=(0, 5), scale_up_after_s=0.0)
    assert len(only(Spawn, submit(pool, *(call(n, A) for n in range(1, 9))))) == 2


def test_one_app_can_be_given_more_instances_and_fewer() -> None:
    pool = dynamic(A, B, size=(0, 4), max_idle_time_s=5.0)
    boot(pool, pool.step(Resized(3, A), 0.0), now=0.0)
    assert pool.step(Ticked(), 60.0) == []
    assert len(only(Retire, pool.step(Resized(1, A), 61.0))) == 2


def test_a_worker_that_died_is_no_way_around_its_delay() -> None:
    pool = dynamic(A, B, size=(0, 2), restart_delay_s=4.0, restart_delay_max_s=4.0)
    submit(pool, call(1, A))
    assert only(Spawn, pool.step(Exited(W1), 1.0))  # the first death in a row costs no time
    assert pool.step(Exited(W2), 1.0) == []
    assert pool.step(Resized(0, A), 2.0) == []
    assert pool.step(Ticked(), 4.9) == []
    assert only(Spawn, pool.step(Ticked(), 5.0))


def test_an_app_whose_circuit_is_open_leaves_its_place_to_others_and_is_tried_again() -> None:
    pool = dynamic(A, B, size=(0, 1), max_restarts=1, restart_delay_s=0.1, restart_delay_max_s=5.0)
    spawn = only(Spawn, submit(pool, call(1, A, idempotent=True)))[0]
    again = only(Spawn, pool.step(Exited(spawn.worker), 0.1))[0]
    pool.step(Exited(again.worker), 0.2)
    assert pool.snapshot().broken == (A,)
    other = only(Spawn, submit(pool, call(2, B), now=0.3))[0]
    assert other.apps == (B,)
    pool.step(Ready(other.worker), 0.4)
    pool.step(Finished(other.worker, C2), 0.5)
    assert only(Retire, pool.step(Ticked(), 5.2))
    probe = only(Spawn, pool.step(Exited(other.worker), 5.3))[0]
    assert probe.apps == (A,)
    pool.step(Ready(probe.worker), 6.0)
    assert pool.snapshot().broken == ()


def test_the_place_of_an_app_whose_circuit_is_open_is_free_for_any_other() -> None:
    pool = dynamic(A, B, size=(2, 2), max_restarts=1, restart_delay_s=0.1)
    pool.step(Exited(W1), 0.1)
    assert only(Spawn, pool.step(Exited(W3), 0.2)) == [Spawn(W4, (B,))]
    assert pool.snapshot().broken == (A,)


def test_a_drain_still_starts_a_worker_for_calls_that_were_accepted() -> None:
    pool = dynamic(A, B, size=(0, 1))
    boot(pool, submit(pool, call(1, A), call(2, A), call(3, B)), now=0.0)
    pool.step(DrainBegun(60.0), 1.0)
    pool.step(Finished(W1, C1), 2.0)
    assert pool.step(Finished(W1, C2), 2.0) == [Retire(W1)]
    assert leave(pool, W1, now=2.1) == [Spawn(W2, (B,))]
    assert pool.step(Ready(W2), 3.0) == [Dispatch(W2, C3, 1)]
    assert pool.step(Finished(W2, C3), 4.0) == [Retire(W2)]
    assert leave(pool, W2, now=4.1) == [ReportDrained()]


# --- what cannot be ---


@pytest.mark.parametrize(
    ("apps", "settings", "words"),
    [
        ([A], {"placement": "dynamic"}, "no pool_size"),
        ([A], {"pool_size": (1, 4), "workers": 3}, "keep one of the two"),
        ([A + ":1-2"], {"pool_size": (1, 4)}, "placement = 'dynamic'"),
        ([A + ":1-2"], {}, "placement = 'dynamic'"),
        ([A + ":3-4", B + ":2-2"], {"pool_size": (1, 4), "placement": "dynamic"}, "raise it to 5"),
        ([A + ":2-2", B], {"pool_size": (1, 2), "placement": "dynamic"}, "raise it to 3"),
        ([A + ":5"], {"pool_size": (1, 4)}, "wants 5 workers"),
        ([A], {"pool_size": (4, 1)}, "4-1 is out of range"),
        ([A], {"pool_size": "4"}, "'4' is not a least and a most"),
    ],
)
def test_settings_that_cannot_be(apps: list[str], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DirtyConfig.of(*apps, **settings)


def test_sizes_are_understood_as_text() -> None:
    config = DirtyConfig.of(A + ":0-3", pool_size="1-8", placement="dynamic", max_idle_time="5m")
    assert config.pool_size == (1, 8)
    assert config.apps[0].instances == (0, 3)
    assert str(config.apps[0]) == A + ":0-3"


# --- what it says of itself ---


def test_the_snapshot_says_why_each_worker_and_queue_is_as_it_is() -> None:
    pool = elastic(size=(0, 2), scale_up_after_s=0.5)
    assert repr(pool) == "<Pool 0-2 workers: 0 ready, 0 booting, 0 running, 0 queued>"
    submit(pool, 1, 2, now=1.0)
    pool.step(Ticked(), 1.2)
    assert pool.snapshot().waits == {APP: "1 worker about to be ready"}
    assert [worker.why for worker in pool.snapshot().workers] == ["boots for 0.2 s"]
    pool.step(Ready(W1), 1.4)
    assert pool.snapshot().waits == {APP: "1 worker with it, all busy"}
    assert pool.snapshot().workers[0].why == "runs 1 call"
    pool.step(Ticked(), 2.0)
    pool.step(Ready(W2), 2.5)
    submit(pool, 3, now=2.5)
    assert pool.snapshot().waits == {APP: "2 workers with it, all busy; the pool has its most workers, 2"}
    for worker, call_id in ((W1, C1), (W1, C3), (W2, C2)):
        pool.step(Finished(worker, call_id), 3.0)
    pool.step(Resized(1), 3.5)
    pool.step(Bounded(0, 1), 4.0)
    assert [worker.why for worker in pool.snapshot().workers] == ["idle for 1.0 s", "was told to leave"]
    pool.step(Exited(W1), 4.0)
    assert pool.snapshot().waits == {}


def test_calls_that_wait_for_company_say_so() -> None:
    pool = elastic(size=(1, 1))
    batch = Batch(max_size=2, max_wait=1.0)
    submit(pool, call(1, batch=batch, action="run", ripe_at=1.0))
    assert pool.snapshot().waits == {APP: "they wait for others to run with, as one batch"}


def test_a_full_batch_that_waits_needs_one_worker() -> None:
    pool = elastic(size=(0, 4), scale_up_after_s=0.0)
    batch = Batch(max_size=4, max_wait=1.0)
    calls = [call(n, batch=batch, action="run", ripe_at=1.0) for n in range(1, 9)]
    assert len(only(Spawn, submit(pool, *calls))) == 2
