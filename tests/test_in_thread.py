from __future__ import annotations

import asyncio
import time

import pytest

from dirtybus.in_thread import in_thread


async def test_a_loop_that_never_rests_gives_way() -> None:
    is_over = False

    async def hurry() -> None:
        while not is_over:
            sum(range(1000))
            await asyncio.sleep(0)

    def work() -> int:
        for _ in range(20):
            time.sleep(0.0001)  # gives the interpreter lock away, which has to be had back
        return 20

    hurrying = [asyncio.create_task(hurry()) for _ in range(10)]
    try:
        async with asyncio.timeout(2):
            assert await in_thread(work) == 20
    finally:
        is_over = True
        await asyncio.gather(*hurrying)


async def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


async def test_nothing_ticks_on_when_the_work_is_done() -> None:
    loop = asyncio.get_running_loop()
    assert await in_thread(int, "7") == 7
    await asyncio.sleep(0.005)  # the last look at the work
    assert not [each for each in loop._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
