"""More calls than workers, from end to end: who is told what, who waits, and whose turn it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dirtybus.app import action
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.errors import ActionNotFound, DirtyError, DirtyTimeoutError, Draining, QueueFull
from tests.arbiter.serving import BASIC, MARKING, serving, until


@asynccontextmanager
async def busy(tmp_path: Path, *apps: str, **settings: Any) -> AsyncIterator[tuple[Arbiter, asyncio.Task[Any]]]:
    """Yield an arbiter whose one worker runs a call until it is cancelled, and that call."""
    async with serving(*(apps or (BASIC,)), **settings) as arbiter:
        mark = tmp_path / "blocking"
        blocking = asyncio.create_task(arbiter.call(BASIC, "until_cancelled", str(mark)))
        await until(mark.with_name("blocking.began").exists)
        yield arbiter, blocking
        blocking.cancel()


def queued(arbiter: Arbiter) -> int:
    return int(arbiter.status()["queued"].get(BASIC, 0))


def waiting(arbiter: Arbiter) -> int:
    return len(arbiter._interpreter.lobby)


async def ask(arbiter: Arbiter, *args: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a call and wait until it is queued, refused, or waits for room."""
    before = queued(arbiter), waiting(arbiter)
    task = asyncio.create_task(arbiter.execute(BASIC, "echo", args, **options))
    await until(lambda: task.done() or (queued(arbiter), waiting(arbiter)) != before)
    return task


async def errors_of(*tasks: asyncio.Task[Any]) -> list[Any]:
    async with asyncio.timeout(20):
        return await asyncio.gather(*tasks, return_exceptions=True)


# --- refuse, drop ---


async def test_a_refused_call_is_told_when_to_come_again(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1) as (arbiter, _):
        await ask(arbiter, "waits")
        [error] = await errors_of(await ask(arbiter, "too many"))
        assert isinstance(error, QueueFull)
        assert error.retry_after_s == 1.0, "no call has ended yet"
        assert "wait" not in error.details


async def test_arguments_count_in_bytes(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued_payload_bytes=2048) as (arbiter, _):
        await ask(arbiter, b"x" * 1500)
        assert 1500 < arbiter.status()["queued_bytes"][BASIC] < 1600
        [error] = await errors_of(await ask(arbiter, b"x" * 1500))
        assert isinstance(error, QueueFull)


async def test_a_dropped_call_is_told_that_a_newer_one_took_its_place(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="drop_oldest") as (arbiter, blocking):
        oldest = await ask(arbiter, "oldest")
        newest = asyncio.create_task(arbiter.call(BASIC, "echo", "newest"))
        [error] = await errors_of(oldest)
        assert isinstance(error, QueueFull)
        assert "dropped from it for a newer one" in str(error)
        blocking.cancel()
        assert await newest == "newest"


async def test_a_call_that_waits_longer_than_the_setting_is_told_so(tmp_path: Path) -> None:
    async with busy(tmp_path, queue_timeout=0.1) as (arbiter, _):
        with pytest.raises(DirtyTimeoutError, match="not started within 0.1 s") as caught:
            await arbiter.call(BASIC, "echo", 1)
        assert (caught.value.phase, caught.value.whose) == ("queued", "the setting queue_timeout")
        assert caught.value.timeout == 0.1


# --- wait ---


async def test_callers_wait_for_room_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait") as (arbiter, blocking):
        tasks = [await ask(arbiter, number) for number in range(5)]
        assert (queued(arbiter), waiting(arbiter)) == (1, 4)
        done: list[int] = []
        for task in tasks:
            task.add_done_callback(lambda task: done.append(task.result()))
        assert arbiter.ledger.submitted == 2, "those who wait for room were not accepted yet"
        blocking.cancel()
        assert await errors_of(*tasks) == [0, 1, 2, 3, 4]
        assert done == [0, 1, 2, 3, 4]


async def test_a_thousand_callers_wait_and_all_are_answered() -> None:
    async with serving(workers=2, max_queued=2, queue_full="wait") as arbiter:
        asked = [arbiter.call(BASIC, "echo", number) for number in range(1000)]
        assert await asyncio.gather(*asked) == list(range(1000))
        assert arbiter.ledger.refused == 0


async def test_cancelled_callers_lose_nobody_elses_room() -> None:
    async with serving(max_queued=1, queue_full="wait") as arbiter:
        tasks = [asyncio.create_task(arbiter.call(BASIC, "echo", number)) for number in range(300)]
        for number, task in enumerate(tasks):
            if number % 3:
                asyncio.get_running_loop().call_later(number % 7 * 0.01, task.cancel)
        for number, outcome in enumerate(await errors_of(*tasks)):
            assert outcome == number or (number % 3 and isinstance(outcome, asyncio.CancelledError))
        assert waiting(arbiter) == 0


async def test_a_stream_waits_for_room_too(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait") as (arbiter, blocking):
        await ask(arbiter, "waits")

        async def read() -> list[int]:
            return [number async for number in arbiter.stream(BASIC, "numbers", (200,))]

        reading = asyncio.create_task(read())
        await until(lambda: waiting(arbiter))
        blocking.cancel()
        assert await reading == list(range(200))


@pytest.mark.parametrize(
    ("settings", "timeout_s", "whose"),
    [({}, 0.1, "the caller's timeout"), ({"queue_timeout": 0.1}, 30, "the setting queue_timeout")],
)
async def test_waiting_for_room_is_within_the_limits_of_the_call(
    tmp_path: Path, settings: dict[str, Any], timeout_s: float, whose: str
) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait", **settings) as (arbiter, _):
        first = await ask(arbiter, "first", timeout_s=30)
        [error] = await errors_of(await ask(arbiter, "late", timeout_s=timeout_s))
        assert isinstance(error, DirtyTimeoutError)
        assert (error.phase, error.whose) == ("queued", whose)
        first.cancel()


@pytest.mark.parametrize(
    ("settings", "timeout_s", "whose"),
    [({}, 0.6, "the caller's timeout"), ({"queue_timeout": 0.6}, 30, "the setting queue_timeout")],
)
async def test_limits_count_from_the_question_not_from_the_admission(
    tmp_path: Path, settings: dict[str, Any], timeout_s: float, whose: str
) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait", **settings) as (arbiter, _):
        in_the_way = await ask(arbiter, "in the way")
        asked_at = time.monotonic()
        late = await ask(arbiter, "late", timeout_s=timeout_s)
        await asyncio.sleep(0.3)
        in_the_way.cancel()
        await until(lambda: not waiting(arbiter))
        [error] = await errors_of(late)
        assert isinstance(error, DirtyTimeoutError)
        assert error.whose == whose
        assert time.monotonic() - asked_at < 0.85


async def test_a_call_that_makes_no_sense_does_not_wait_first(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait") as (arbiter, _):
        await ask(arbiter, "waits")
        with pytest.raises(DirtyError, match="not nan"):
            await arbiter.call(BASIC, "echo", timeout_s=float("nan"))
        with pytest.raises(ActionNotFound):
            await arbiter.call(BASIC, "x" * 1000)
        endless = await ask(arbiter, "endless", timeout_s=float("inf"))
        endless.cancel()


async def test_a_drain_sends_away_who_waits_for_room_and_cuts_no_work(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait") as (arbiter, blocking):
        accepted, outside = await ask(arbiter, "accepted"), await ask(arbiter, "outside")
        draining = asyncio.create_task(arbiter.drain(20))
        [error] = await errors_of(outside)
        assert isinstance(error, Draining)
        blocking.cancel()
        assert await accepted == "accepted"
        assert await draining


async def test_a_kill_sends_away_who_waits_for_room(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_full="wait") as (arbiter, _):
        tasks = [await ask(arbiter, number) for number in range(3)]
        arbiter.kill()
        assert [type(error) for error in await errors_of(*tasks)] == [Draining] * 3


async def test_an_attached_client_is_told_that_it_may_wait(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with busy(tmp_path, socket=path, max_queued=1, queue_full="wait") as (arbiter, _):
        await ask(arbiter, "waits")
        client = DirtyClient(path)
        with pytest.raises(QueueFull) as caught:
            await client.execute_async(BASIC, "echo", 1)
        assert caught.value.details == {"wait": True, "retry_after_s": 1.0}
        await client.close_async()


# --- whose turn it is ---


async def test_priorities_of_callers_and_of_actions_decide_who_goes_first(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with busy(tmp_path, BASIC, MARKING, socket=path) as (arbiter, blocking):
        client = DirtyClient(path)
        calls = {
            "low": arbiter.execute(MARKING, "mark", ("low",), priority=-7),
            "plain": arbiter.execute(MARKING, "mark", ("plain",)),
            "action's": arbiter.execute(MARKING, "mark_soon", ("action's",)),
            "overruled": arbiter.execute(MARKING, "mark_soon", ("overruled",), priority=-8),
            "client's": client.request_async(MARKING, "mark", ("client's",), priority=50),
            "beyond": arbiter.execute(MARKING, "mark", ("beyond",), priority=10**9),
        }
        tasks = [asyncio.create_task(call) for call in calls.values()]
        await until(lambda: arbiter.status()["queued"].get(MARKING) == len(calls))
        blocking.cancel()
        await errors_of(*tasks)
        assert await arbiter.call(MARKING, "marks") == ["beyond", "client's", "action's", "plain", "low", "overruled"]
        await client.close_async()


async def test_a_client_with_many_calls_does_not_hold_up_another(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with busy(tmp_path, BASIC, MARKING, socket=path) as (arbiter, blocking):
        greedy, modest = DirtyClient(path), DirtyClient(path)
        many = [asyncio.create_task(greedy.execute_async(MARKING, "mark", "greedy")) for _ in range(300)]
        await until(lambda: arbiter.status()["queued"].get(MARKING) == 300)
        one = asyncio.create_task(modest.execute_async(MARKING, "mark", "modest"))
        await until(lambda: arbiter.status()["queued"].get(MARKING) == 301)
        blocking.cancel()
        await errors_of(*many, one)
        assert (await arbiter.call(MARKING, "marks")).index("modest") <= 1
        await greedy.close_async()
        await modest.close_async()


@pytest.mark.parametrize("priority", [101, -101, 1.0, True, "5"])
def test_an_action_says_no_priority_that_there_is_not(priority: Any) -> None:
    with pytest.raises(ValueError, match="priority must be a whole number from -100 to 100"):
        action(priority=priority)


async def test_every_refusal_is_booked(tmp_path: Path) -> None:
    async with busy(tmp_path, max_queued=1, queue_timeout=0.2) as (arbiter, _):
        tasks = [await ask(arbiter, number) for number in range(4)]
        outcomes = await errors_of(*tasks)
        assert [isinstance(error, DirtyError) for error in outcomes] == [True] * 4
        assert (arbiter.ledger.refused, arbiter.ledger.expired) == (3, 1)
