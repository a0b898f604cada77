"""Calls that a drain does not wait for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from dirtybus.client import DirtyClient
from dirtybus.errors import Draining
from dirtybus.events import WorkerExited
from tests.arbiter.serving import Diary, serving, until

ENDLESS = "tests.apps.endless:Endless"
#: far more than a drain takes in which nobody is waited for, and far less than the limits
SOON_S = 5.0


@pytest.mark.parametrize("action", ["ticks", "aticks"])
async def test_an_endless_stream_ends_with_its_chunks_and_then_draining(action: str, tmp_path: Path) -> None:
    closed, diary = tmp_path / "closed", Diary()
    async with serving(ENDLESS, observer=diary) as arbiter:
        seen: list[int] = []

        async def read() -> None:
            async for number in arbiter.stream(ENDLESS, action, (str(closed),)):
                seen.append(number)

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) >= 5)
        began_at = time.monotonic()
        assert await arbiter.drain(60) is True, "nobody was cut"
        assert time.monotonic() - began_at < SOON_S
        with pytest.raises(Draining, match="not waited for"):
            await reading
        assert seen == list(range(len(seen)))
        assert closed.exists(), "the generator was closed"
        assert [event.exit_code for event in diary.of(WorkerExited)] == [0], "the worker left in order"
        assert (arbiter.ledger.refused, arbiter.ledger.submitted) == (1, 1)


@pytest.mark.parametrize("action", ["wait", "await_news"])
async def test_a_long_wait_is_told_at_once_and_the_work_beside_it_is_finished(action: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    async with serving(ENDLESS, threads=2) as arbiter:
        waiting = asyncio.create_task(arbiter.call(ENDLESS, action, str(told)))
        working = asyncio.create_task(arbiter.call(ENDLESS, "work", 0.5))
        await until(Path(f"{told}.began").exists)
        await until(lambda: sum(worker["running"] for worker in arbiter.status()["workers"]) == 2)
        draining = asyncio.create_task(arbiter.drain(60))
        with pytest.raises(Draining):
            await waiting
        assert not working.done()
        assert await working == "worked"
        assert await draining is True
        assert told.exists(), "the action was told to stop"


async def test_what_waits_for_a_worker_never_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    async with serving(ENDLESS) as arbiter:
        working = asyncio.create_task(arbiter.call(ENDLESS, "work", 0.3))
        queued = asyncio.create_task(arbiter.call(ENDLESS, "wait", str(ran)))
        await until(lambda: arbiter.ledger.open == 2)
        assert await arbiter.drain(60) is True
        with pytest.raises(Draining):
            await queued
        assert await working == "worked"
        assert not ran.exists()


async def test_one_that_does_not_heed_it_costs_its_worker_after_the_grace_and_no_more() -> None:
    async with serving(ENDLESS, cancel_grace=0.2) as arbiter:
        deaf = asyncio.create_task(arbiter.call(ENDLESS, "deaf"))
        await until(lambda: [w["state"] for w in arbiter.status()["workers"]] == ["busy"])
        began_at = time.monotonic()
        assert await arbiter.drain(60) is True
        assert 0.2 <= time.monotonic() - began_at < SOON_S
        with pytest.raises(Draining):
            await deaf


async def test_it_is_told_when_admission_closes_although_the_drain_begins_later(tmp_path: Path) -> None:
    async with serving(ENDLESS) as arbiter:
        waiting = asyncio.create_task(arbiter.call(ENDLESS, "wait", str(tmp_path / "told")))
        await until(lambda: [w["state"] for w in arbiter.status()["workers"]] == ["busy"])
        arbiter.close_admission()
        with pytest.raises(Draining, match="not waited for"):
            await asyncio.wait_for(waiting, 20)
        assert await arbiter.drain(60) is True


async def test_a_drain_that_has_to_cut_others_is_not_clean(tmp_path: Path) -> None:
    async with serving(ENDLESS, threads=2) as arbiter:
        calls = [
            asyncio.create_task(arbiter.call(ENDLESS, "wait", str(tmp_path / "told"))),
            asyncio.create_task(arbiter.call(ENDLESS, "work", 60)),
        ]
        await until(lambda: sum(worker["running"] for worker in arbiter.status()["workers"]) == 2)
        assert await arbiter.drain(0.3) is False
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [Draining, Draining]


async def test_a_reader_in_another_process_gets_the_end_mark_too(tmp_path: Path) -> None:
    socket = str(tmp_path / "bus.sock")
    async with serving(ENDLESS, socket=socket) as arbiter:
        client = DirtyClient(socket)
        seen: list[int] = []

        async def read() -> None:
            async for number in client.stream_async(ENDLESS, "aticks", str(tmp_path / "closed")):
                seen.append(number)

        reading = asyncio.create_task(read())
        await until(lambda: len(seen) >= 5)
        assert await arbiter.drain(60) is True
        with pytest.raises(Draining):
            await reading
        assert seen == list(range(len(seen)))
        await client.close_async()
