"""Workers that are replaced although nothing is wrong with them: by calls, by age, by memory; never all at once."""

from __future__ import annotations

from typing import Any

import pytest

from dirtybus.config import DirtyConfig, RecycleConfig
from dirtybus.errors import ConfigError
from dirtybus.pool import Pool
from dirtybus.pool.model import CallId, Phase, Refusal
from dirtybus.pool.ports import (
    CancelRequested,
    Dispatch,
    DrainBegun,
    Exited,
    Finished,
    Kill,
    KillReason,
    Measured,
    Ready,
    Refuse,
    ReloadBegun,
    Retire,
    Spawn,
    Ticked,
)
from tests.pool.boxes import APP, C1, C2, W1, W2, W3, W4, boot, call, only, specs, submit


def recycling(*apps: str, workers: int = 1, jitter: float | None = None, **settings: Any) -> Pool:
    """Return a pool whose settings of recycling are ``settings``; its workers became ready at 0.0."""
    config = DirtyConfig(workers=workers, recycle=RecycleConfig(**settings))
    pool = Pool(config, specs(*apps), jitter=None if jitter is None else lambda: jitter)
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    return pool


def serve(pool: Pool, number: int, now: float = 1.0) -> list[Any]:
    (sent,) = only(Dispatch, submit(pool, number, now=now))
    return pool.step(Finished(sent.worker, CallId(number)), now)


def test_after_so_many_calls_an_heir_is_started_and_the_worker_serves_until_that_is_ready() -> None:
    pool = recycling(max_requests=3)
    assert serve(pool, 1) == serve(pool, 2) == []
    assert serve(pool, 3) == [Spawn(W2, (APP,))]
    assert submit(pool, 4, now=2.0) == [Dispatch(W1, CallId(4), 1)]
    assert pool.step(Ready(W2), 3.0) == []
    assert submit(pool, 5, now=3.0) == [Dispatch(W2, CallId(5), 1)]
    assert pool.step(Finished(W1, CallId(4)), 4.0) == [Retire(W1)]
    assert pool.step(Exited(W1), 5.0) == []
    assert [worker.id for worker in pool.snapshot().workers] == [W2]


def test_each_call_counts_once_whatever_becomes_of_it() -> None:
    pool = recycling(max_requests=3)
    submit(pool, 1, now=1.0)
    pool.step(CancelRequested(C1), 1.0)
    assert pool.step(Finished(W1, C1), 1.0) == []
    assert pool.step(Finished(W1, C1), 1.0) == []  # said twice
    assert serve(pool, 2) == []
    assert only(Spawn, serve(pool, 3))


def test_the_jitter_puts_it_off_by_as_many_calls() -> None:
    pool = recycling(max_requests=2, max_requests_jitter=4, jitter=0.5)
    assert [only(Spawn, serve(pool, n)) != [] for n in (1, 2, 3, 4)] == [False, False, False, True]


def test_workers_are_never_replaced_all_at_once() -> None:
    pool = recycling(workers=3, max_age_s=10.0)
    assert pool.wake_at() == 10.0
    assert pool.step(Ticked(), 10.0) == [Spawn(W4, (APP,))]
    assert pool.step(Ticked(), 20.0) == []
    orders = pool.step(Ready(W4), 21.0)
    assert orders == [Retire(W1)]
    (heir,) = only(Spawn, pool.step(Exited(W1), 22.0))  # the next one's turn
    assert pool.step(Ready(heir.worker), 23.0) == [Retire(W2)]
    assert len(only(Spawn, pool.step(Exited(W2), 24.0))) == 1


def test_ages_are_spread_over_a_tenth() -> None:
    assert recycling(max_age_s=100.0, jitter=0.5).wake_at() == pytest.approx(105.0)


def test_too_much_memory_is_a_reason_too_and_the_calls_in_it_end() -> None:
    pool = recycling(soft_memory_bytes=1000, hard_memory_bytes=5000)
    submit(pool, 1)
    assert pool.step(Measured(W1, 1000), 1.0) == []
    assert pool.step(Measured(W1, 1001), 1.0) == [Spawn(W2, (APP,))]
    assert pool.step(Measured(W1, 2000), 2.0) == []
    assert pool.step(Ready(W2), 3.0) == []
    assert pool.step(Finished(W1, C1), 4.0) == [Retire(W1)]


def test_beyond_the_hard_limit_it_is_killed_with_the_reason_and_held_against_the_calls_in_it() -> None:
    pool = recycling(hard_memory_bytes=5000)
    submit(pool, call(1, idempotent=True))
    for worker in (W1, W2):
        assert pool.step(Measured(worker, 5001), 1.0) == [Kill(worker, KillReason.MEMORY)]
        assert pool.step(Measured(worker, 6000), 1.0) == []
        orders = pool.step(Exited(worker), 2.0)
        for spawn in only(Spawn, orders):
            pool.step(Ready(spawn.worker), 2.0)
    assert [order.why for order in only(Refuse, orders)] == [Refusal.POISONED]


def test_an_heir_that_cannot_boot_costs_nobody_and_is_tried_again() -> None:
    pool = recycling(max_requests=1)
    assert serve(pool, 1) == [Spawn(W2, (APP,))]
    assert only(Spawn, pool.step(Exited(W2), 2.0)) == [Spawn(W3, (APP,))]
    assert pool.step(Exited(W3), 3.0) == []
    assert submit(pool, 2, now=3.0) == [Dispatch(W1, C2, 1)]
    wake_at = pool.wake_at()
    assert wake_at is not None
    assert only(Spawn, pool.step(Ticked(), wake_at)) == [Spawn(W4, (APP,))]


def test_a_worn_worker_that_dies_is_replaced_once() -> None:
    pool = recycling(max_requests=1)
    serve(pool, 1)
    assert pool.step(Exited(W1), 2.0) == []  # the heir is on its way
    pool.step(Ready(W2), 3.0)
    assert [worker.id for worker in pool.snapshot().workers] == [W2]


def test_a_reload_replaces_worn_workers_anyway() -> None:
    pool = recycling(workers=2, max_age_s=10.0)
    config = DirtyConfig(workers=2, recycle=RecycleConfig(max_age_s=50.0))
    (first,) = only(Spawn, pool.step(ReloadBegun(1, config, tuple(specs()), 2), 9.0))
    assert pool.step(Ticked(), 10.0) == []
    pool.step(Ready(first.worker), 11.0)
    assert all(spawn.generation == 1 for spawn in only(Spawn, pool.step(Exited(W1), 12.0)))


def test_nobody_is_replaced_in_a_drain() -> None:
    pool = recycling(max_age_s=10.0)
    submit(pool, 1)
    pool.step(DrainBegun(99.0), 5.0)
    assert pool.step(Ticked(), 11.0) == []
    assert pool.step(Finished(W1, C1), 12.0) == [Retire(W1)]


def test_in_an_elastic_pool_an_heir_may_be_one_more_than_the_most() -> None:
    config = DirtyConfig(pool_size=(1, 1), recycle=RecycleConfig(max_requests=1))
    pool = Pool(config, specs())
    boot(pool, pool.step(Ticked(), 0.0), now=0.0)
    assert serve(pool, 1) == [Spawn(W2, (APP,))]
    assert pool.step(Ready(W2), 2.0) == [Retire(W1)]
    assert pool.snapshot().count(Phase.READY) == 1


def test_a_hard_limit_below_the_soft_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="hard_memory_bytes is 1 .*raise the hard limit to more than 1000"):
        DirtyConfig.of(APP, recycle={"soft_memory": "1KB", "hard_memory": 1})
