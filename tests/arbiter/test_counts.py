from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import WorkerLost
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort
from tests.apps.counting import TWO
from tests.arbiter.serving import serving, until

COUNTING = "tests.apps.counting:Counting"


async def count(workers: int, action: str, times: int) -> None:
    """Let each worker count at the same time, and expect that nothing was lost or counted twice."""
    async with serving(COUNTING, workers=workers, timeout_s=280) as arbiter:
        pids = await asyncio.gather(*(arbiter.call(COUNTING, action, "n", times) for _ in range(workers)))
        assert len({*pids}) == workers
        assert await counted(arbiter) == workers * times


async def counted(arbiter: Arbiter) -> int:
    found: int = await AsyncStash(AsyncLocalPort(LocalPort(arbiter.stash))).get("counts", "n", 0)
    return found


@pytest.mark.parametrize(("action", "times"), [("count", 500), ("swap", 100), ("transact", 100)])
async def test_workers_that_count_at_the_same_time_lose_nothing(action: str, times: int) -> None:
    await count(4, action, times)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("action", "times"), [("count", 10_000), ("swap", 10_000), ("transact", 10_000)])
async def test_eight_workers_count_to_80000(action: str, times: int) -> None:
    await count(8, action, times)


async def test_kill_9_in_the_middle_loses_no_answered_increment_and_adds_none(tmp_path: Path) -> None:
    async with serving(COUNTING, workers=3) as arbiter:
        calls = [
            asyncio.create_task(arbiter.call(COUNTING, "count_until_killed", "n", str(tmp_path))) for _ in range(3)
        ]
        await until(lambda: len(books(tmp_path)) == 3 and all(answered > 50 for _, answered in books(tmp_path)))
        for file in tmp_path.iterdir():
            os.kill(int(file.name), signal.SIGKILL)
        lost = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in lost] == [WorkerLost] * 3
        sent, answered = (sum(column) for column in zip(*books(tmp_path), strict=True))
        assert answered <= await counted(arbiter) <= sent
        assert sent - answered <= 3


def books(directory: Path) -> list[tuple[int, int]]:
    """Return how many each worker has sent, and how many were answered."""
    found: list[tuple[int, int]] = []
    for file in directory.iterdir():
        if len(written := file.read_bytes()) == TWO.size:
            sent, answered = TWO.unpack(written)
            found.append((sent, answered))
    return found
