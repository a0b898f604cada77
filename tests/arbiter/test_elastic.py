"""An elastic pool with real workers: from zero and back, bursts, kills on the way, one app each, reloads."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError, DirtyAppNotFoundError, DirtyError
from tests.arbiter.serving import BASIC, OTHER, serving, until

QUICK: dict[str, Any] = {"max_idle_time": 0.2, "scale_up_after": 0.02}


def workers(arbiter: Arbiter) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = arbiter.status()["workers"]
    return found


async def test_from_zero_to_the_first_answer_and_back_to_zero() -> None:
    async with serving(pool_size=(0, 2), **QUICK) as arbiter:
        assert workers(arbiter) == []
        assert await arbiter.call(BASIC, "echo", 1) == 1
        await until(lambda: not workers(arbiter))
        assert await arbiter.call(BASIC, "echo", 2) == 2


async def test_calls_that_wait_bring_workers_up_to_the_most() -> None:
    async with serving(pool_size=(1, 3), scale_up_after=0.02) as arbiter:
        calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 0.4)) for _ in range(12)]
        await until(lambda: len(workers(arbiter)) == 3)
        assert await asyncio.gather(*calls) == [0.4] * 12
        assert len(workers(arbiter)) == 3


async def test_workers_that_are_killed_as_they_come_cost_no_call() -> None:
    async with serving(pool_size=(0, 3), restart_delay=0.01, **QUICK) as arbiter:
        calls = [asyncio.create_task(arbiter.call(BASIC, "echo_twice", n)) for n in range(40)]
        for _ in range(3):
            booting = await until(lambda: [w for w in workers(arbiter) if w["pid"] and w["state"] == "booting"])
            os.kill(booting[0]["pid"], signal.SIGKILL)
        assert await asyncio.gather(*calls) == list(range(40))
        await until(lambda: not workers(arbiter))


async def test_a_worker_that_leaves_when_a_call_comes_costs_no_call() -> None:
    async with serving(pool_size=(0, 1), max_idle_time=0.001, scale_up_after=0) as arbiter:
        for number in range(30):
            assert await arbiter.call(BASIC, "echo", number) == number
            await asyncio.sleep(number % 5 * 0.002)  # to meet the leave at any point of it


async def test_each_worker_holds_one_app_and_makes_room_for_another() -> None:
    async with serving(BASIC, OTHER, pool_size=(0, 1), placement="dynamic") as arbiter:
        first = await arbiter.call(BASIC, "pid")
        assert [w["apps"] for w in workers(arbiter)] == [[BASIC]]
        assert await arbiter.call(OTHER, "pid") != first
        assert [w["apps"] for w in workers(arbiter)] == [[OTHER]]
        answers = [arbiter.call(app, "pid") for app in (BASIC, OTHER, BASIC, OTHER)]
        assert len(await asyncio.gather(*answers)) == 4


async def test_there_are_never_more_processes_than_the_most() -> None:
    async with serving(BASIC, OTHER, pool_size=(0, 2), placement="dynamic", **QUICK) as arbiter:
        most, others = 0, {process.pid for process in psutil.Process().children()}

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, len({process.pid for process in psutil.Process().children()} - others))
                await asyncio.sleep(0.002)

        watching = asyncio.create_task(watch())
        answers = [arbiter.call(app, "echo", n) for n in range(20) for app in (BASIC, OTHER)]
        await asyncio.gather(*answers)
        watching.cancel()
        assert 1 <= most <= 2


async def test_instances_are_kept_and_asked_for() -> None:
    apps = (f"{BASIC}:1-2", f"{OTHER}:0-2")
    async with serving(*apps, pool_size=(0, 4), placement="dynamic", max_idle_time=0.1) as arbiter:
        assert [w["apps"] for w in workers(arbiter)] == [[BASIC]]
        os.kill(workers(arbiter)[0]["pid"], signal.SIGKILL)
        await until(lambda: [w["state"] for w in workers(arbiter)] == ["idle"] and workers(arbiter)[0]["worker"] > 1)
        assert arbiter.resize(2, OTHER) == 2
        await until(lambda: sorted(w["apps"][0] for w in workers(arbiter)) == sorted([BASIC, OTHER, OTHER]))
        assert arbiter.why_not(9, OTHER) == f"{OTHER} may have 2 workers here, not 9"
        assert arbiter.resize(0, OTHER) == 0
        await until(lambda: len(workers(arbiter)) == 1)


async def test_what_has_no_meaning_is_refused_with_the_remedy() -> None:
    async with serving(pool_size=(1, 2)) as arbiter:
        with pytest.raises(ConfigError, match="placement = 'dynamic'"):
            arbiter.resize(2, BASIC)
        with pytest.raises(DirtyAppNotFoundError, match="m:Nobody"):
            arbiter.resize(2, "m:Nobody")
        with pytest.raises(ConfigError, match="3-2 is out of range"):
            arbiter.bound(3, 2)
    async with serving() as arbiter:
        with pytest.raises(ConfigError, match="set a pool_size"):
            arbiter.bound(1, 2)


async def test_clients_ask_for_numbers_too(tmp_path: Path) -> None:
    async with serving(pool_size=(1, 2), socket=str(tmp_path / "s")) as arbiter:
        with DirtyClient(str(tmp_path / "s")) as client:
            told = await asyncio.to_thread(client.scale, 9)
            assert (told["workers"], told["note"]) == (2, "the pool has from 1 to 2 workers, not 9")
            assert (await asyncio.to_thread(lambda: client.scale(pool_size=(1, 3))))["pool_size"] == [1, 3]
            assert (await asyncio.to_thread(client.scale, 3))["workers"] == 3
            await until(lambda: len(workers(arbiter)) == 3)
            with pytest.raises(DirtyError, match="least and a most"):
                await asyncio.to_thread(lambda: client.scale(pool_size=(1, 2, 3)))  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", ["static", "dynamic"])
async def test_a_reload_keeps_the_workers_that_there_are_and_goes_by_new_limits(placement: str) -> None:
    async with serving(BASIC, OTHER, pool_size=(0, 2), placement=placement, max_idle_time=0) as arbiter:
        before = {await arbiter.call(BASIC, "pid"), await arbiter.call(OTHER, "pid")}
        config = DirtyConfig.of(
            BASIC, OTHER, pool_size=(1, 4), placement=placement, max_idle_time=0, scale_up_after=0.02
        )
        await arbiter.reload(config)
        assert not before & {await arbiter.call(BASIC, "pid"), await arbiter.call(OTHER, "pid")}
        calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 0.5)) for _ in range(8)]
        await until(lambda: len(workers(arbiter)) == 4)
        await asyncio.gather(*calls)


async def test_a_reload_at_zero_is_over_at_once_and_the_next_call_gets_new_code() -> None:
    async with serving(pool_size=(0, 2), **QUICK) as arbiter:
        await arbiter.reload()
        assert await arbiter.call(BASIC, "echo", 1) == 1


async def test_a_fixed_pool_becomes_elastic_and_fixed_again() -> None:
    async with serving(workers=2) as arbiter:
        await arbiter.reload(DirtyConfig.of(BASIC, pool_size=(0, 3), **QUICK))
        await until(lambda: not workers(arbiter))
        assert await arbiter.call(BASIC, "echo", 1) == 1
        await arbiter.reload(DirtyConfig.of(BASIC, workers=2))
        await until(lambda: [w["state"] for w in workers(arbiter)] == ["idle", "idle"])


async def test_a_drain_answers_calls_that_no_worker_was_there_for() -> None:
    async with serving(BASIC, OTHER, pool_size=(0, 1), placement="dynamic") as arbiter:
        calls = [asyncio.create_task(arbiter.call(app, "echo", 1)) for app in (BASIC, OTHER, BASIC)]
        await asyncio.sleep(0)
        assert await arbiter.drain(20)
        assert await asyncio.gather(*calls) == [1, 1, 1]
