from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import Draining, PoisonCall, WorkerLost
from dirtybus.events import WorkerExited, WorkerReady, WorkerSpawned
from tests.arbiter.serving import BASIC, OTHER, Diary, serving, until


def busy_pid(arbiter: Arbiter) -> int:
    pid: int = next(worker["pid"] for worker in arbiter.status()["workers"] if worker["running"])
    return pid


def has_begun(arbiter: Arbiter) -> bool:
    """Say whether a call runs that its worker has begun: one that it has not goes to another and is not lost."""
    crew = arbiter._interpreter.crew
    return any(record.child is not None and record.child.was_begun(call) for record in crew for call in record.calls)


async def test_kill_9_of_a_busy_worker_costs_one_call_of_fifty() -> None:
    async with serving() as arbiter:
        calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 0.05)) for _ in range(50)]
        await until(lambda: arbiter.ledger.succeeded >= 3 and has_begun(arbiter))
        os.kill(busy_pid(arbiter), signal.SIGKILL)
        results = await asyncio.gather(*calls, return_exceptions=True)
        lost = [error for error in results if isinstance(error, WorkerLost)]
        assert len(lost) == 1
        assert results.count(0.05) == 49
        assert lost[0].started
        assert "SIGKILL" in str(lost[0].reason)
        assert (lost[0].signal, lost[0].exit_code) == ("SIGKILL", None)
        assert (arbiter.ledger.lost, arbiter.ledger.succeeded) == (1, 49)


async def test_the_end_of_a_worker_is_told_with_code_or_signal_and_reason() -> None:
    diary = Diary()
    async with serving(observer=diary, restart_delay=0) as arbiter:
        for action in ("die", "segfault"):
            with pytest.raises(WorkerLost):
                await arbiter.call(BASIC, action)
        by_code, by_signal = diary.of(WorkerExited)
        assert (by_code.exit_code, by_code.signal) == (7, None)
        assert (by_signal.exit_code, by_signal.signal) == (None, "SIGSEGV")
        assert "code 7" in by_code.reason
    assert [event.worker for event in diary.of(WorkerReady)][:2] == [1, 2]
    assert all(event.pid > 0 and event.apps == (BASIC,) for event in diary.of(WorkerSpawned))


async def test_an_idempotent_call_is_run_again_and_knows_it(tmp_path: Path) -> None:
    async with serving() as arbiter:
        assert await arbiter.call(BASIC, "die_once", str(tmp_path / "died")) == 2
        assert arbiter.ledger.lost == 0


async def test_a_call_that_kills_its_workers_is_put_away() -> None:
    async with serving(crash_limit=2, restart_delay=0) as arbiter:
        with pytest.raises(PoisonCall) as caught:
            await arbiter.call(BASIC, "poison")
        assert caught.value.attempts == 2
        assert len(caught.value.history) == 2
        assert "code 9" in caught.value.history[0]
        assert await arbiter.call(BASIC, "echo", 1) == 1


async def test_a_replacement_holds_the_same_apps() -> None:
    async with serving(BASIC, OTHER, workers=2) as arbiter:
        before = await arbiter.call(OTHER, "pid")
        os.kill(before, signal.SIGKILL)
        assert await arbiter.call(OTHER, "pid") != before, "the call waits for the replacement"
        assert await arbiter.call(BASIC, "echo", 1) == 1


async def test_an_idle_worker_killed_costs_nobody_anything() -> None:
    async with serving(workers=2) as arbiter:
        for worker in arbiter.status()["workers"]:
            os.kill(worker["pid"], signal.SIGKILL)
        assert await asyncio.gather(*(arbiter.call(BASIC, "echo", n) for n in range(20))) == list(range(20))
        assert arbiter.ledger.lost == 0


async def test_kill_fails_every_open_call_and_leaves_no_process() -> None:
    async with serving(workers=2) as arbiter:
        pids = [worker["pid"] for worker in arbiter.status()["workers"]]
        calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 30)) for _ in range(6)]
        await until(lambda: arbiter.ledger.open == 6)
        arbiter.kill()
        arbiter.kill()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, Draining) for error in results)
        await arbiter.close()
        assert not [pid for pid in pids if psutil.pid_exists(pid)]


async def test_drain_lets_running_and_queued_calls_end() -> None:
    async with serving() as arbiter:
        calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 0.02)) for _ in range(20)]
        await until(lambda: arbiter.ledger.open == 20)
        assert await arbiter.drain(30) is True
        assert await asyncio.gather(*calls) == [0.02] * 20
        assert arbiter.status()["workers"] == []


async def test_drain_cuts_what_outlasts_it_and_says_so() -> None:
    async with serving() as arbiter:
        running = asyncio.create_task(arbiter.call(BASIC, "sleep", 60))
        queued = asyncio.create_task(arbiter.call(BASIC, "echo", 1))
        await until(lambda: arbiter.ledger.open == 2)
        assert await arbiter.drain(0.2) is False
        for error in await asyncio.gather(running, queued, return_exceptions=True):
            assert isinstance(error, Draining)


@pytest.mark.slow
@pytest.mark.timeout(420)
async def test_a_thousand_restarts_leave_nothing_behind() -> None:
    async with serving(workers=4, restart_delay=0, healthy_after=0, max_restarts=0) as arbiter:
        await restart(arbiter, 200)  # caches are filled, arenas allotted
        before = await footprint(arbiter)
        await restart(arbiter, 800)
        after = await footprint(arbiter)
    assert after.descriptors <= before.descriptors
    assert after.tasks <= before.tasks
    assert after.resident_bytes - before.resident_bytes < 6 << 20
    assert arbiter.ledger.lost == 0, "they were idle"


async def restart(arbiter: Arbiter, count: int) -> None:
    """Kill so many workers, each while it is idle, and see each replaced."""
    for number in range(count // arbiter.target):
        killed = idle_pids(arbiter)
        assert len(killed) == arbiter.target
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert await arbiter.call(BASIC, "echo", number) == number
        await until(lambda: len(idle_pids(arbiter) - killed) == arbiter.target)  # noqa: B023 - it ends within the turn


def idle_pids(arbiter: Arbiter) -> set[int]:
    return {worker["pid"] for worker in arbiter.status()["workers"] if worker["state"] == "idle"}


class Footprint(NamedTuple):
    descriptors: int
    tasks: int
    resident_bytes: int


async def footprint(arbiter: Arbiter) -> Footprint:
    """Return what the owner takes up while nothing goes on; none of its children may be dead."""
    me = psutil.Process()
    states = [child.status() for child in me.children()]
    assert psutil.STATUS_ZOMBIE not in states
    assert len(states) == arbiter.target
    gc.collect()
    return Footprint(me.num_fds(), len(asyncio.all_tasks()), me.memory_info().rss)
