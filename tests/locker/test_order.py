"""How many run at once, and in which order they start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.exceptions import ExecutionStop
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.errors import ConfigError
from dirtybus.locker import ProcessLocker

from .bench import LONG_PATIENCE_S, Bench, Meter, Ping, Pong, assert_at_rest, depend, turns


def metered(bench: Bench) -> Meter:
    meter = Meter()

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await meter.run(number)

    return meter


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_as_many_run_at_once_as_the_limit_says_and_no_more(limit: int) -> None:
    locker = ProcessLocker(limit, opened=True)
    bench = Bench(locker)
    meter = metered(bench)
    await bench.run(*(Ping(n) for n in range(50)))
    assert meter.peak == limit
    assert meter.started == list(range(50))
    assert_at_rest(locker)


async def test_without_a_limit_all_run_at_once() -> None:
    locker = ProcessLocker(None, opened=True)
    bench = Bench(locker)
    meter = metered(bench)
    await bench.run(*(Ping(n) for n in range(50)))
    assert meter.peak == 50
    assert locker.snapshot().free is None
    assert_at_rest(locker)


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize("limit", [1, 7, 1000, None])
async def test_events_start_in_the_order_in_which_they_came_also_around_the_opening(
    limit: int | None, hops: int
) -> None:
    locker = ProcessLocker(limit)
    bench = Bench(locker)
    meter = metered(bench)
    posted = [bench.post(Ping(n)) for n in range(500)]
    await turns(10)
    assert locker.snapshot().pending == 500
    # each arrives at the locker two turns after it is posted: before, during and after the wake-up of those held
    for n in range(500, 600):
        posted.append(bench.post(Ping(n)))
        if n == 550:
            await turns(hops)
            locker.open()
    for n in range(600, 700):
        posted.append(bench.post(Ping(n)))
        await turns(n % 3)
    await bench.finish(posted)
    assert meter.started == list(range(700))
    assert_at_rest(locker)


async def test_an_arrival_does_not_overtake_one_that_has_its_slot_but_has_not_woken() -> None:
    locker = ProcessLocker(2)
    bench = Bench(locker)
    meter = metered(bench)

    async def late() -> None:
        await meter.run(1)

    held = bench.post(Ping(0))
    await turns(5)
    # no turn of the loop lies between these two: a slot is free, and the one held has not run yet
    locker.open()
    await bench.broadcast.Executor(late)
    await bench.finish([held])
    assert meter.started == [0, 1]
    assert_at_rest(locker)


@pytest.mark.slow
@pytest.mark.timeout(160)
async def test_ten_thousand_events_before_the_opening_all_run_in_order_ten_at_a_time() -> None:
    locker = ProcessLocker(10)
    bench = Bench(locker)
    meter = metered(bench)
    posted = [bench.post(Ping(n)) for n in range(10_000)]
    await turns(5)
    assert repr(locker) == "<ProcessLocker shut, 0 of 10 running, 10000 held>"
    locker.open()
    await bench.finish(posted, within_s=LONG_PATIENCE_S)
    assert meter.started == list(range(10_000))
    assert meter.peak == 10
    assert locker.snapshot().dropped == 0
    assert_at_rest(locker)


async def test_each_listener_of_an_event_takes_a_slot() -> None:
    locker = ProcessLocker(2, opened=True)
    bench = Bench(locker)
    meter = Meter()
    for _ in range(5):

        @bench.on(Ping)
        async def listener() -> None:
            await meter.run()

    await bench.run(Ping())
    assert len(meter.started) == 5
    assert meter.peak == 2
    assert_at_rest(locker)


async def test_closing_holds_what_comes_but_not_what_runs_or_belongs_to_it() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    ended: list[str] = []
    closed = asyncio.Event()

    @bench.on(Pong)
    async def pong() -> None:
        ended.append("pong")

    @bench.on(Ping)
    async def listener() -> None:
        await closed.wait()
        await bench.post(Pong())
        ended.append("ping")

    running = bench.post(Ping())
    await turns(5)
    locker.close()
    closed.set()
    held = bench.post(Ping())
    await bench.finish([running])
    assert ended == ["pong", "ping"]
    assert repr(locker) == "<ProcessLocker shut, 0 of 1 running, 1 held>"
    locker.open()
    await bench.finish([held])
    assert_at_rest(locker)


async def test_a_listener_can_ask_for_the_locker() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    given: list[ProcessLocker] = []

    @bench.on(Ping)
    async def listener(gate: ProcessLocker) -> None:
        given.append(gate)

    await bench.run(Ping())
    assert given == [locker]


async def test_a_dispatcher_that_stops_before_the_locker_takes_no_slot() -> None:
    class Stopper(BaseDispatcher):
        async def catch(self, interface: DispatcherInterface[Any]) -> None:
            return None

        async def beforeExecution(self, interface: DispatcherInterface[Any]) -> None:
            raise ExecutionStop

    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    meter = metered(bench)
    bench.broadcast.prelude_dispatchers.insert(-1, Stopper())
    await bench.run(Ping(), Ping())
    assert meter.started == []
    assert locker.counters["arrived"] == 0
    assert_at_rest(locker)


async def test_a_permit_comes_back_from_an_execution_whose_end_graia_skips() -> None:
    async def borrow() -> AsyncIterator[int]:
        yield 1
        raise LookupError("a cleanup that fails, so graia calls no dispatcher after it")

    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    ran: list[int] = []

    @bench.on(Ping)
    async def listener(borrowed: int = depend(borrow)) -> None:
        ran.append(borrowed)

    await bench.run(Ping(), Ping())
    assert ran == [1, 1]
    assert locker.counters["recovered"] == 2
    assert_at_rest(locker)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "10"])
def test_a_limit_that_is_no_whole_number_above_zero_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match="max_concurrent must be a whole number >= 1"):
        ProcessLocker(limit)
