"""The end: what still runs, what is dropped, and what drain says of it."""

from __future__ import annotations

import asyncio

import pytest

from dirtybus.errors import DirtyError
from dirtybus.locker import DropReason, ProcessLocker

from .bench import PATIENCE_S, Bench, Ping, Pong, assert_at_rest, turns, until


class Slow:
    """Listeners that end when told to."""

    def __init__(self, bench: Bench) -> None:
        self.go = asyncio.Event()
        self.started: list[int] = []
        self.ended: list[int] = []

        @bench.on(Ping)
        async def listener(number: int) -> None:
            self.started.append(number)
            await self.go.wait()
            self.ended.append(number)


async def test_a_drain_runs_what_is_held_and_refuses_what_comes() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    posted = [bench.post(Ping(n)) for n in range(3)]
    await until(lambda: slow.started == [0])
    draining = asyncio.create_task(locker.drain(PATIENCE_S))
    await turns(3)
    assert repr(locker) == "<ProcessLocker draining, 1 of 1 running, 2 held>"
    await bench.run(Ping(9))
    assert locker.counters["dropped_draining"] == 1
    slow.go.set()
    assert await draining
    await bench.finish(posted)
    assert slow.ended == [0, 1, 2]
    assert not locker.opened
    assert_at_rest(locker)


async def test_a_drain_before_the_opening_runs_what_is_held() -> None:
    locker = ProcessLocker(1)
    bench = Bench(locker)
    slow = Slow(bench)
    slow.go.set()
    posted = [bench.post(Ping(n)) for n in range(3)]
    await turns(5)
    assert await locker.drain(PATIENCE_S)
    await bench.finish(posted)
    assert slow.ended == [0, 1, 2]
    assert_at_rest(locker)


async def test_a_drain_without_flush_drops_what_is_held_and_waits_for_what_runs() -> None:
    dropped: list[DropReason] = []
    locker = ProcessLocker(1, opened=True, on_drop=lambda _event, reason: dropped.append(reason))
    bench = Bench(locker)
    slow = Slow(bench)
    posted = [bench.post(Ping(n)) for n in range(3)]
    await until(lambda: slow.started == [0])
    draining = asyncio.create_task(locker.drain(PATIENCE_S, flush=False))
    await turns(3)
    assert not draining.done()
    assert dropped == [DropReason.DRAINING] * 2
    slow.go.set()
    assert await draining
    await bench.finish(posted)
    assert slow.ended == [0]
    assert_at_rest(locker)


async def test_a_drain_that_runs_out_of_time_says_so_and_drops_what_is_still_held() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    posted = [bench.post(Ping(n)) for n in range(3)]
    await until(lambda: slow.started == [0])
    assert not await locker.drain(0.02)
    assert locker.counters["dropped_draining"] == 2
    assert repr(locker) == "<ProcessLocker draining, 1 of 1 running, 0 held, 2 dropped>"
    slow.go.set()
    await bench.finish(posted)
    assert slow.ended == [0]
    assert await locker.drain(0)
    assert_at_rest(locker)


async def test_a_drain_waits_for_suspended_trees_too() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    go = asyncio.Event()

    @bench.on(Ping)
    async def listener() -> None:
        async with locker.suspended():
            await go.wait()

    posted = bench.post(Ping())
    await until(lambda: locker.snapshot().suspended == 1)
    assert not await locker.drain(0.01)
    draining = asyncio.create_task(locker.drain(None))
    await turns(3)
    assert not draining.done()
    go.set()
    assert await draining
    await bench.finish([posted])
    assert_at_rest(locker)


async def test_while_draining_a_running_tree_still_gets_its_own_events() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    begun, go, heard = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @bench.on(Pong)
    async def pong() -> None:
        heard.set()

    @bench.on(Ping)
    async def listener(number: int) -> None:
        begun.set()
        await go.wait()
        if number:
            async with locker.suspended():
                await bench.post(Pong())
        else:
            await bench.post(Pong())

    for number in (0, 1):
        for event in (begun, go, heard):
            event.clear()
        locker.open()
        posted = bench.post(Ping(number))
        await begun.wait()
        draining = asyncio.create_task(locker.drain(PATIENCE_S))
        await turns(2)
        go.set()
        assert await draining
        await bench.finish([posted])
        assert heard.is_set()
    assert_at_rest(locker)


async def test_two_drains_at_once_both_end() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    posted = bench.post(Ping())
    await until(lambda: slow.started == [0])
    drains = [asyncio.create_task(locker.drain(PATIENCE_S)) for _ in range(2)]
    await turns(2)
    slow.go.set()
    assert await asyncio.gather(*drains) == [True, True]
    await bench.finish([posted])


async def test_a_cancelled_drain_leaves_the_locker_draining_and_a_second_one_finishes_it() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    posted = [bench.post(Ping(n)) for n in range(2)]
    await until(lambda: slow.started == [0])
    drain = asyncio.create_task(locker.drain(None))
    await turns(2)
    drain.cancel()
    await bench.finish([drain])
    assert repr(locker) == "<ProcessLocker draining, 1 of 1 running, 1 held>"
    assert not await locker.drain(0, flush=False)
    slow.go.set()
    await bench.finish(posted)
    assert slow.ended == [0]
    assert await locker.drain(0)
    assert_at_rest(locker)


async def test_a_drain_from_inside_an_event_is_refused_for_it_would_wait_for_itself() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    errors: list[BaseException] = []

    @bench.on(Ping)
    async def listener() -> None:
        try:
            await locker.drain(None)
        except DirtyError as exc:
            errors.append(exc)

    await bench.run(Ping())
    assert [str(error) for error in errors] == [
        "drain() was called from inside an event that it would wait for; call it from a service"
    ]
    assert locker.opened


async def test_opening_after_a_drain_takes_events_again() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    slow.go.set()
    assert await locker.drain(None)
    locker.open()
    await bench.run(Ping(1))
    assert slow.ended == [1]


async def test_opening_during_a_drain_ends_it_without_shutting_the_gate_again() -> None:
    locker = ProcessLocker(1, opened_by=asyncio.Event())
    bench = Bench(locker)
    slow = Slow(bench)
    locker.open()
    posted = [bench.post(Ping(n)) for n in range(2)]
    await until(lambda: slow.started == [0])
    drain = asyncio.create_task(locker.drain(0.05, flush=True))
    await turns(3)
    locker.open()
    assert not await drain
    assert repr(locker) == "<ProcessLocker open, 1 of 1 running, 1 held>"
    slow.go.set()
    await bench.finish(posted)
    assert slow.ended == [0, 1]
    assert_at_rest(locker)


async def test_a_drain_of_nothing_is_clean_at_once() -> None:
    async with asyncio.timeout(1):
        assert await ProcessLocker(1).drain(None)


@pytest.mark.parametrize("flush", [True, False])
async def test_nothing_is_let_in_after_a_drain(flush: bool) -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    slow = Slow(bench)
    slow.go.set()
    assert await locker.drain(1, flush=flush)
    await bench.run(Ping(1))
    assert slow.started == []
    assert locker.counters["dropped_draining"] == 1
