"""Lending a slot, and getting it back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from dirtybus.locker import ProcessLocker

from .bench import Bench, Meter, Ping, Pong, assert_at_rest, turns, until


async def test_a_suspended_tree_lets_the_next_event_run_and_then_goes_before_all_others() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    order: list[str] = []
    heard = asyncio.Event()

    @bench.on(Ping)
    async def listener() -> None:
        order.append("suspends")
        async with locker.suspended():
            await heard.wait()
        order.append("is back")

    @bench.on(Pong)
    async def other(number: int) -> None:
        order.append(f"other {number}")
        if number == 0:
            heard.set()
            await turns(5)

    await bench.run(Ping(), *(Pong(n) for n in range(3)))
    assert order == ["suspends", "other 0", "is back", "other 1", "other 2"]
    assert_at_rest(locker)


async def test_a_suspended_tree_comes_back_through_a_shut_gate() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    ended: list[int] = []

    @bench.on(Ping)
    async def listener(number: int) -> None:
        async with locker.suspended():
            await turns(3)
            assert repr(locker) == "<ProcessLocker open, 0 of 1 running, 0 held, 1 suspended>"
            locker.close()
        ended.append(number)

    await bench.run(Ping(1))
    assert ended == [1]
    assert_at_rest(locker)


async def test_with_suspensions_there_are_never_more_running_than_the_limit() -> None:
    locker = ProcessLocker(3, opened=True)
    bench = Bench(locker)
    meter = Meter()

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await meter.run(number)
        async with locker.suspended():
            await turns(number % 7)
        await meter.run(number)

    await bench.run(*(Ping(n) for n in range(60)))
    assert len(meter.started) == 120
    assert meter.peak == 3
    assert_at_rest(locker)


async def test_an_event_awaited_inside_the_block_has_the_slot_of_its_tree() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    meter = Meter()

    @bench.on(Pong)
    async def pong(number: int) -> None:
        await meter.run(number)

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await meter.run(number)
        async with locker.suspended():
            await bench.post(Pong(number))
        await meter.run(number)

    await bench.run(*(Ping(n) for n in range(5)))
    assert len(meter.started) == 15
    assert meter.peak == 1
    assert_at_rest(locker)


async def test_an_event_begun_in_the_block_and_awaited_after_it_ends() -> None:
    """At limit 1 the slot is the parent's again while the child, which the parent awaits, is suspended itself."""
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    ended: list[str] = []
    inside, go = asyncio.Event(), asyncio.Event()

    @bench.on(Pong)
    async def child() -> None:
        async with locker.suspended():
            inside.set()
            await go.wait()
        ended.append("child")

    @bench.on(Ping)
    async def parent() -> None:
        async with locker.suspended():
            task = bench.post(Pong())
            await inside.wait()
        go.set()
        await task
        ended.append("parent")

    await bench.run(Ping(), Ping())
    assert ended == ["child", "parent"] * 2
    assert_at_rest(locker)


async def test_an_event_posted_in_the_block_that_arrives_after_it_still_belongs_to_the_tree() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    ended: list[str] = []

    @bench.on(Pong)
    async def child() -> None:
        ended.append("child")

    @bench.on(Ping)
    async def parent() -> None:
        async with locker.suspended():
            task = bench.post(Pong())
        await task
        async with locker.suspended():
            ended.append(f"parent, {locker.snapshot().running} running")

    await bench.run(Ping())
    assert ended == ["child", "parent, 0 running"]
    assert locker.counters["joined"] == 1
    assert_at_rest(locker)


async def test_a_branch_goes_on_without_a_slot_while_another_has_lent_it() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    heard = asyncio.Event()
    ended: list[str] = []

    @bench.on(Ping)
    async def listener() -> None:
        async def waits() -> None:
            async with locker.suspended():
                await heard.wait()
            ended.append("waits")

        async def suspends_briefly() -> None:
            async with locker.suspended():
                await turns(1)
            ended.append("brief")

        await asyncio.gather(waits(), suspends_briefly())

    @bench.on(Pong)
    async def other() -> None:
        heard.set()

    posted = bench.post(Ping())
    await until(lambda: ended == ["brief"])
    await bench.run(Pong())
    await bench.finish([posted])
    assert ended == ["brief", "waits"]
    assert_at_rest(locker)


async def test_a_branch_that_waits_for_the_slot_goes_on_when_another_lends_it_again() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    took, heard, end_other = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    @bench.on(Ping)
    async def listener() -> None:
        async def returns() -> None:
            async with locker.suspended():
                await took.wait()
            ended.append("returns")

        async def lends() -> None:
            await took.wait()
            await turns(5)
            assert locker.snapshot().suspended == 1
            async with locker.suspended():
                await heard.wait()

        await asyncio.gather(returns(), lends())

    @bench.on(Pong)
    async def other() -> None:
        took.set()
        await end_other.wait()

    posted = [bench.post(Ping()), bench.post(Pong())]
    await until(lambda: ended == ["returns"])
    assert repr(locker) == "<ProcessLocker open, 1 of 1 running, 0 held, 1 suspended>"
    heard.set()
    end_other.set()
    await bench.finish(posted)
    assert_at_rest(locker)


async def test_blocks_nest() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    seen: list[int] = []

    @bench.on(Ping)
    async def listener() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(locker.suspended())
                seen.append(locker.snapshot().running)
        seen.append(locker.snapshot().running)

    await bench.run(Ping())
    assert seen == [0, 0, 0, 1]
    assert_at_rest(locker)


async def test_outside_of_an_event_it_does_nothing() -> None:
    locker = ProcessLocker(1, opened=True)
    async with locker.suspended():
        assert repr(locker) == "<ProcessLocker open, 0 of 1 running, 0 held>"
    assert_at_rest(locker)


async def test_a_task_that_outlives_its_tree_leaves_the_block_without_waiting() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    left: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def linger() -> None:
        async with locker.suspended():
            await go.wait()

    @bench.on(Ping)
    async def listener() -> None:
        left.append(asyncio.create_task(linger()))
        await turns(2)

    await bench.run(Ping())
    assert_at_rest(locker)
    go.set()
    await bench.finish(left)
    assert left[0].exception() is None
    assert_at_rest(locker)


async def test_a_task_that_waits_for_the_slot_of_a_tree_that_ends_goes_on() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    left: list[asyncio.Task[None]] = []
    heard, end_other = asyncio.Event(), asyncio.Event()

    async def linger() -> None:
        async with locker.suspended():
            await heard.wait()

    @bench.on(Ping)
    async def listener() -> None:
        left.append(asyncio.create_task(linger()))
        await heard.wait()
        await turns(5)
        assert locker.snapshot().suspended == 1

    @bench.on(Pong)
    async def other() -> None:
        heard.set()
        await end_other.wait()

    posted = [bench.post(Ping()), bench.post(Pong())]
    await bench.finish(left)
    assert not end_other.is_set()
    end_other.set()
    await bench.finish(posted)
    assert_at_rest(locker)


async def test_a_tree_cancelled_while_it_waits_for_its_slot_leaves_nothing_behind() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    heard, end_other = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    @bench.on(Ping)
    async def listener() -> None:
        current = asyncio.current_task()
        assert current is not None
        tasks.append(current)
        async with locker.suspended():
            await heard.wait()

    @bench.on(Pong)
    async def other() -> None:
        heard.set()
        await end_other.wait()

    posted = [bench.post(Ping()), bench.post(Pong())]
    await heard.wait()
    await turns(3)
    assert locker.snapshot().suspended == 1
    tasks[0].cancel()
    await bench.finish(posted[:1])
    assert locker.snapshot().suspended == 0
    end_other.set()
    await bench.finish(posted)
    assert_at_rest(locker)


async def test_a_joiner_cancelled_while_its_tree_waits_for_the_slot_lets_it_go_again() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    took, end_other, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def body() -> None:
        await asyncio.sleep(0)

    @bench.on(Pong)
    async def other() -> None:
        took.set()
        await end_other.wait()

    @bench.on(Ping)
    async def listener() -> None:
        async with locker.suspended():
            await took.wait()
            child = asyncio.create_task(bench.broadcast.Executor(body))
            await turns(3)
            child.cancel()
            await asyncio.wait({child})
            assert locker._permits._returning == {}
            await leave.wait()

    posted = [bench.post(Ping()), bench.post(Pong())]
    await took.wait()
    await turns(10)
    end_other.set()
    await bench.finish(posted[1:])
    assert repr(locker) == "<ProcessLocker open, 0 of 1 running, 0 held, 1 suspended>"
    leave.set()
    await bench.finish(posted)
    assert_at_rest(locker)
