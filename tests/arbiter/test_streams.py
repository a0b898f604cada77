from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import DirtyAppError, DirtyTimeoutError, WorkerLost
from tests.arbiter.serving import BASIC, serving, until

WINDOW = 8


async def test_chunks_arrive_in_order_and_a_plain_value_is_one_chunk() -> None:
    async with serving() as arbiter:
        assert [n async for n in arbiter.stream(BASIC, "numbers", (200,))] == list(range(200))
        assert [n async for n in arbiter.stream(BASIC, "anumbers", (200,))] == list(range(200))
        assert [n async for n in arbiter.stream(BASIC, "echo", ("one",))] == ["one"]
        assert [n async for n in arbiter.stream(BASIC, "numbers", (0,))] == []


@pytest.mark.parametrize("action", ["numbers", "anumbers"])
async def test_an_error_in_mid_stream_comes_after_the_chunks_before_it(action: str) -> None:
    async with serving() as arbiter:
        seen = []
        with pytest.raises(DirtyAppError, match="failed at 3") as caught:
            async for number in arbiter.stream(BASIC, action, (10,), {"fail_at": 3}):
                seen.append(number)
        assert seen == [0, 1, 2]
        assert caught.value.error_type == "RuntimeError"


@pytest.mark.parametrize("action", ["endless", "aendless"])
async def test_leaving_the_loop_closes_the_generator_in_the_worker(action: str, tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    async with serving() as arbiter:
        async for number in arbiter.stream(BASIC, action, (str(mark),)):
            if number == 3:
                break
        await until(mark.exists)
        assert await arbiter.call(BASIC, "echo", "next") == "next"


async def test_a_reader_that_stalls_parks_only_its_own_stream(tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    sent = Path(f"{mark}.sent")
    async with serving(threads=2, stream_window=WINDOW) as arbiter:
        stalled = arbiter.stream(BASIC, "endless", (str(mark),))
        assert await anext(stalled) == 0
        await until(lambda: sent.exists() and (sent.read_text() or "0") >= str(WINDOW))
        for _ in range(20):  # calls go on beside it
            assert await arbiter.call(BASIC, "echo", 1) == 1
        assert int(sent.read_text()) <= WINDOW + 1, "the generator ran on without a reader"
        assert [await anext(stalled) for _ in range(50)] == list(range(1, 51))
        await stalled.aclose()
        await until(mark.exists)


async def test_a_hundred_async_streams_overlap_on_one_worker() -> None:
    async with serving() as arbiter:

        async def read() -> int:
            return len([n async for n in arbiter.stream(BASIC, "anumbers", (5, 0.1))])

        began_at = time.monotonic()
        assert await asyncio.gather(*(read() for _ in range(100))) == [5] * 100
        assert time.monotonic() - began_at < 15, "one after the other they take 50 s"


async def test_the_idle_limit_is_apart_from_the_deadline() -> None:
    async with serving() as arbiter:
        stream = arbiter.stream(BASIC, "anumbers", (5, 30.0), idle_timeout_s=0.1)
        with pytest.raises(DirtyTimeoutError) as caught:
            await anext(stream)
        assert (caught.value.whose, caught.value.phase) == ("stream_idle_timeout", "stream")
        slow = arbiter.stream(BASIC, "anumbers", (5, 0.1), idle_timeout_s=20)
        assert [n async for n in slow] == [0, 1, 2, 3, 4]


async def test_the_deadline_ends_a_stream_that_goes_on() -> None:
    async with serving() as arbiter:
        seen = 0
        with pytest.raises(DirtyTimeoutError) as caught:
            async for _ in arbiter.stream(BASIC, "anumbers", (10_000, 0.01), timeout_s=0.3):
                seen += 1
        assert caught.value.phase == "running"
        assert 0 < seen < 10_000


async def test_a_worker_that_dies_in_mid_stream_fails_the_stream_after_its_chunks() -> None:
    async with serving() as arbiter:
        stream = arbiter.stream(BASIC, "anumbers", (10_000, 0.01))
        assert await anext(stream) == 0
        _kill_the_worker(arbiter)
        with pytest.raises(WorkerLost):
            async for _ in stream:
                pass
        assert await arbiter.call(BASIC, "echo", "next") == "next"


def _kill_the_worker(arbiter: Arbiter) -> None:
    for record in arbiter._interpreter.crew:
        assert record.child is not None
        record.child.kill()
