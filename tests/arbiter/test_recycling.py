"""Workers that are replaced although nothing is wrong: no call is lost, and the memory is really given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.arbiter.memory_watch import own_bytes
from dirtybus.errors import PoisonCall, WorkerLost
from dirtybus.events import WorkerExited
from tests.arbiter.serving import BASIC, Diary, serving, until

GREEDY = "tests.apps.greedy:Greedy"


def workers(arbiter: Arbiter, *states: str) -> list[dict[str, Any]]:
    found = arbiter.status()["workers"]
    return [worker for worker in found if not states or worker["state"] in states]


async def test_a_worker_that_had_its_calls_is_replaced_and_no_call_is_lost() -> None:
    diary = Diary()
    async with serving(workers=2, observer=diary, recycle={"max_requests": 5, "max_requests_jitter": 2}) as arbiter:
        answers = await asyncio.gather(*(arbiter.call(BASIC, "echo", n) for n in range(100)))
        assert answers == list(range(100))
        await until(lambda: len(diary.of(WorkerExited)) >= 2)
        assert [await arbiter.call(BASIC, "echo", n) for n in range(30)] == list(range(30))
        assert {event.exit_code for event in diary.of(WorkerExited)} == {0}


async def test_a_stream_is_finished_by_the_worker_that_began_it() -> None:
    async with serving(recycle={"max_requests": 1}) as arbiter:
        before = workers(arbiter)[0]["worker"]
        seen = []
        async for number in arbiter.stream(BASIC, "anumbers", (40, 0.01)):
            seen.append(number)
            if number == 0:
                await arbiter.call(BASIC, "echo", 1)  # the last straw
        assert seen == list(range(40))
        await until(lambda: before not in [worker["worker"] for worker in workers(arbiter)])


async def test_age_replaces_an_idle_worker() -> None:
    async with serving(recycle={"max_age": "300ms"}) as arbiter:
        first = workers(arbiter)[0]["worker"]
        await until(lambda: workers(arbiter, "idle") and workers(arbiter)[0]["worker"] > first + 1)
        assert await arbiter.call(BASIC, "echo", 1) == 1


async def test_memory_beyond_the_soft_limit_is_given_back() -> None:
    async with serving(GREEDY, recycle={"soft_memory": "150MB"}) as arbiter:
        pid = workers(arbiter)[0]["pid"]
        assert await arbiter.call(GREEDY, "take", 200) == pid
        await until(lambda: pid not in [worker["pid"] for worker in workers(arbiter)])
        after = await arbiter.call(GREEDY, "take", 0)
        assert (own_bytes(after) or 0) < 150_000_000


async def test_memory_beyond_the_hard_limit_ends_the_call_that_takes_it_with_the_reason() -> None:
    async with serving(GREEDY, recycle={"hard_memory": "300MB"}, crash_limit=2, restart_delay=0) as arbiter:
        with pytest.raises(WorkerLost, match="more memory than hard_memory allows"):
            await arbiter.call(GREEDY, "take", 400, 30.0)
        with pytest.raises(PoisonCall, match="killed 2 workers"):
            await arbiter.call(GREEDY, "take_again", 400, 30.0)
        assert await arbiter.call(GREEDY, "take", 1) > 0


async def test_nobody_looks_when_nobody_works() -> None:
    async with serving(GREEDY, recycle={"soft_memory": "10GB"}) as arbiter:
        memory = arbiter._interpreter.watches._memory
        await arbiter.call(GREEDY, "take", 1)
        assert memory._next is not None
        await until(lambda: memory._next is None)


def test_the_memory_of_a_process_that_is_gone_is_not_known() -> None:
    assert own_bytes(2**22 + 1) is None
