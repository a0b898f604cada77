"""The #61 matrix: whatever an event does inside itself, it cannot wait for its own slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from graia.broadcast.interrupt import InterruptControl
from graia.broadcast.interrupt.waiter import Waiter

from dirtybus.locker import ProcessLocker

from .bench import PLACES, Bench, Ping, Pong, assert_at_rest, depend, until

Register = Callable[[Bench, list[int]], None]


def one_depend(bench: Bench, ran: list[int]) -> None:
    async def need() -> int:
        await asyncio.sleep(0)
        return 1

    @bench.on(Ping)
    async def listener(number: int, needed: int = depend(need)) -> None:
        ran.append(number)


def chain_of_depends(bench: Bench, ran: list[int]) -> None:
    async def first() -> int:
        return 1

    async def second(needed: int = depend(first)) -> int:
        await asyncio.sleep(0)
        return needed + 1

    async def third(needed: int = depend(second)) -> int:
        return needed + 1

    @bench.on(Ping)
    async def listener(number: int, needed: int = depend(third)) -> None:
        assert needed == 3
        ran.append(number)


def awaited_post(bench: Bench, ran: list[int]) -> None:
    @bench.on(Pong)
    async def inner() -> None:
        await asyncio.sleep(0)

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await bench.post(Pong())
        ran.append(number)


def nested_executor(bench: Bench, ran: list[int]) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "inner"

    @bench.on(Ping)
    async def listener(number: int) -> None:
        assert await bench.broadcast.Executor(inner, dispatchers=bench.inline) == "inner"
        ran.append(number)


def chain_of_posts(bench: Bench, ran: list[int]) -> None:
    @bench.on(Pong)
    async def inner(number: int) -> None:
        if number:
            await bench.post(Pong(number - 1))

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await bench.post(Pong(5))
        ran.append(number)


def fan_of_posts(bench: Bench, ran: list[int]) -> None:
    @bench.on(Pong)
    async def inner() -> None:
        await asyncio.sleep(0)

    @bench.on(Ping)
    async def listener(number: int) -> None:
        await asyncio.gather(*(bench.post(Pong()) for _ in range(5)))
        ran.append(number)


SCENARIOS: list[Register] = [
    one_depend,
    chain_of_depends,
    awaited_post,
    nested_executor,
    chain_of_posts,
    fan_of_posts,
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("register", SCENARIOS, ids=lambda register: register.__name__)
async def test_events_that_nest_end_at_the_smallest_limits(register: Register, limit: int, place: str) -> None:
    locker = ProcessLocker(limit, opened=True)
    bench = Bench(locker, place)
    ran: list[int] = []
    register(bench, ran)
    await bench.run(*(Ping(n) for n in range(limit + 3)))
    assert sorted(ran) == list(range(limit + 3))
    # none was counted twice, none needed the net
    assert (locker.counters["started"], locker.counters["recovered"]) == (limit + 3, 0)
    assert_at_rest(locker)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("limit", [1, 2])
async def test_an_interrupt_is_heard_by_suspended_listeners_that_fill_the_limit(limit: int, place: str) -> None:
    locker = ProcessLocker(limit, opened=True)
    bench = Bench(locker, place)
    interrupts = InterruptControl(bench.broadcast)
    heard: list[int] = []
    waiting = 0

    async def detect(number: int) -> int:
        return number

    @bench.on(Ping)
    async def listener(number: int, gate: ProcessLocker) -> None:
        nonlocal waiting
        # made by a function of graia's that says nothing of its types
        waiter: Any = Waiter.create_using_function([Pong], using_dispatchers=[], using_decorators=[])(detect)
        async with gate.suspended():
            waiting += 1
            heard.append(await interrupts.wait(waiter, dispatchers=list(bench.inline)))

    posted = [bench.post(Ping(n)) for n in range(limit + 1)]
    await until(lambda: waiting == limit + 1)
    await bench.run(Pong(7))
    await bench.finish(posted)
    assert heard == [7] * (limit + 1)
    assert_at_rest(locker)


async def test_what_a_tree_leaves_running_asks_for_a_permit_of_its_own() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)
    left: list[asyncio.Task[None]] = []
    over = asyncio.Event()

    @bench.on(Pong)
    async def pong() -> None:
        await asyncio.sleep(0)

    async def linger() -> None:
        await over.wait()
        await bench.post(Pong())

    @bench.on(Ping)
    async def listener() -> None:
        left.append(asyncio.create_task(linger()))

    await bench.run(Ping())
    over.set()
    await bench.finish(left)
    assert locker.counters["started"] == 2
    assert locker.counters["joined"] == 0
    assert_at_rest(locker)


async def test_a_locker_that_is_registered_thrice_counts_once() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker, "all")

    @bench.on(Ping)
    async def listener() -> None:
        assert repr(locker) == "<ProcessLocker open, 1 of 1 running, 0 held>"

    await bench.run(Ping())
    assert {name: count for name, count in locker.counters.items() if count} == {"arrived": 1, "started": 1}
    assert_at_rest(locker)


async def test_two_lockers_hold_permits_of_their_own() -> None:
    outer, inner = ProcessLocker(2, opened=True), ProcessLocker(1, opened=True)
    bench = Bench(outer)
    bench.inline = [inner]
    ran: list[int] = []
    one_depend(bench, ran)
    await bench.run(*(Ping(n) for n in range(5)))
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert_at_rest(outer)
    assert_at_rest(inner)


async def test_executions_one_after_another_in_one_task_each_get_a_permit() -> None:
    locker = ProcessLocker(1, opened=True)
    bench = Bench(locker)

    async def body() -> None:
        await asyncio.sleep(0)

    for _ in range(3):
        await bench.broadcast.Executor(body)
    assert locker.counters["started"] == 3
    assert_at_rest(locker)
