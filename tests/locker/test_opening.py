"""The event that opens the gate from outside, and the watch over what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from loguru import logger

from dirtybus.locker import ProcessLocker

from .bench import PATIENCE_S, Bench, Ping, assert_at_rest, turns, until


def counting(bench: Bench) -> list[int]:
    ran: list[int] = []

    @bench.on(Ping)
    async def listener(number: int) -> None:
        ran.append(number)

    return ran


async def test_setting_the_event_lets_those_held_run_in_order() -> None:
    signal = asyncio.Event()
    locker = ProcessLocker(1, opened_by=signal)
    bench = Bench(locker)
    ran = counting(bench)
    posted = [bench.post(Ping(n)) for n in range(5)]
    await turns(5)
    assert ran == []
    signal.set()
    posted.append(bench.post(Ping(5)))
    await bench.finish(posted)
    assert ran == [0, 1, 2, 3, 4, 5]
    assert_at_rest(locker)


async def test_an_event_set_before_anything_came_opens_the_gate() -> None:
    signal = asyncio.Event()
    signal.set()
    bench = Bench(ProcessLocker(1, opened_by=signal))
    ran = counting(bench)
    await bench.run(Ping(1))
    assert ran == [1]


async def test_clearing_the_event_shuts_the_gate_for_what_comes_and_setting_it_opens_it_again() -> None:
    signal = asyncio.Event()
    signal.set()
    locker = ProcessLocker(1, opened_by=signal)
    bench = Bench(locker)
    ran = counting(bench)
    await bench.run(Ping(1))
    signal.clear()
    held = bench.post(Ping(2))
    await turns(5)
    assert ran == [1]
    signal.set()
    await bench.finish([held])
    assert ran == [1, 2]


async def test_opening_and_closing_the_locker_show_in_the_event() -> None:
    signal = asyncio.Event()
    locker = ProcessLocker(1, opened_by=signal)
    locker.open()
    assert signal.is_set()
    locker.close()
    assert not signal.is_set()
    assert not locker.opened


async def test_one_task_follows_the_event_and_a_drain_ends_it() -> None:
    before = asyncio.all_tasks()
    signal = asyncio.Event()
    locker = ProcessLocker(1, opened_by=signal)
    bench = Bench(locker)
    ran = counting(bench)
    posted = [bench.post(Ping(n)) for n in range(3)]
    await turns(5)
    followers = [task for task in asyncio.all_tasks() - before if "Opener" in repr(task.get_coro())]
    assert len(followers) == 1
    assert not await locker.drain(0, flush=False) or locker.snapshot().pending == 0
    assert followers[0].cancelled()
    signal.set()
    await bench.finish(posted)
    await bench.run(Ping(9))
    assert ran == []
    assert locker.counters["dropped_draining"] == 4


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(message.record["message"]), level="WARNING")
    yield lines
    logger.remove(sink)


async def test_the_watch_names_the_services_that_events_are_held_for(warnings: list[str]) -> None:
    locker = ProcessLocker(1)
    bench = Bench(locker)
    ran = counting(bench)
    watch = asyncio.create_task(locker.watch(lambda: ["database", "svc{0}{name}"], after_s=0.02))
    posted = [bench.post(Ping(n)) for n in range(2)]
    await until(lambda: len(warnings) == 1)
    assert warnings[0].startswith("2 events are held, the first for 0.")
    assert warnings[0].endswith(" s; still preparing: database, svc{0}{name}")
    locker.open()
    async with asyncio.timeout(PATIENCE_S):
        await watch
    await bench.finish(posted)
    assert ran == [0, 1]


async def test_the_watch_warns_again_after_ever_longer_pauses(warnings: list[str]) -> None:
    locker = ProcessLocker(1)
    bench = Bench(locker)
    loop = asyncio.get_running_loop()
    moments: list[float] = []

    def preparing() -> list[str]:
        moments.append(loop.time())
        return []

    begun_at = loop.time()
    watch = asyncio.create_task(locker.watch(preparing, after_s=0.05))
    bench.on(Ping)(lambda: None)
    posted = bench.post(Ping())
    await until(lambda: len(moments) == 3)
    pauses = [after - before for before, after in zip([begun_at, *moments], moments, strict=False)]
    # a loop may be late, never early by more than the clock's grain
    for pause, least in zip(pauses, [0.05, 0.05, 0.1], strict=True):
        assert pause > least - 0.01
    assert warnings[0].endswith("still preparing: nothing, so what should open the gate is missing")
    locker.open()
    await bench.finish([posted, watch])


async def test_the_watch_says_nothing_while_nothing_is_held_and_ends_with_the_opening(warnings: list[str]) -> None:
    locker = ProcessLocker(1)
    watch = asyncio.create_task(locker.watch(lambda: ["database"], after_s=0.001))
    await asyncio.sleep(0.02)
    assert not watch.done()
    locker.open()
    async with asyncio.timeout(PATIENCE_S):
        await watch
    assert warnings == []


async def test_the_watch_of_an_open_gate_ends_at_once() -> None:
    async with asyncio.timeout(1):
        await ProcessLocker(1, opened=True).watch(list, after_s=100)


async def test_the_watch_ends_with_a_drain(warnings: list[str]) -> None:
    locker = ProcessLocker(1)
    watch = asyncio.create_task(locker.watch(list, after_s=100))
    await turns(2)
    assert await locker.drain(0)
    async with asyncio.timeout(PATIENCE_S):
        await watch
    assert warnings == []


async def test_the_watch_warns_of_a_gate_that_was_shut_again(warnings: list[str]) -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    bench.on(Ping)(lambda: None)
    locker.close()
    watch = asyncio.create_task(locker.watch(list, after_s=0.01))
    posted = bench.post(Ping())
    await until(lambda: len(warnings) == 1)
    locker.open()
    await bench.finish([posted, watch])


async def test_a_snapshot_says_for_how_long_the_oldest_is_held_and_does_not_change_later() -> None:
    locker = ProcessLocker(2)
    bench = Bench(locker)
    bench.on(Ping)(lambda: None)
    assert locker.snapshot().oldest_held_s is None
    posted = bench.post(Ping())
    await turns(5)
    seen = locker.snapshot()
    assert seen.oldest_held_s is not None
    assert 0 <= seen.oldest_held_s < PATIENCE_S
    assert (seen.opened, seen.draining, seen.limit, seen.free, seen.pending) == (False, False, 2, 2, 1)
    locker.open()
    await bench.finish([posted])
    assert seen.counters["started"] == 0
    assert locker.counters["started"] == 1
