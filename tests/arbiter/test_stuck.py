"""Workers that are alive but no use: noticed, asked for their stacks, killed, replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import BootFailed, DirtyTimeoutError, PoisonCall, WorkerLost
from dirtybus.events import WorkerExited
from tests.arbiter.serving import BASIC, Diary, serving, until
from tests.worker.records import Records, records

STUCK = "tests.apps.stuck:Stuck"
HANGS = "tests.apps.broken:Hangs"
HEARTBEAT_S = 0.6
SILENT = "no sign of life within heartbeat_timeout"


@pytest.fixture
def heard() -> Iterator[Records]:
    with records() as found:
        yield found


def pids(arbiter: Arbiter) -> set[int]:
    return {worker["pid"] for worker in arbiter.status()["workers"]} - {0}


def place_of(heard: Records, text: str) -> int:
    return next(place for place, told in enumerate(heard.texts()) if text in told)


# --- the heartbeat ------------------------------------------------------------------------------------------------


async def test_a_stopped_worker_is_replaced_although_its_call_has_no_deadline(tmp_path: Path, heard: Records) -> None:
    diary = Diary()
    async with serving(STUCK, heartbeat_timeout=HEARTBEAT_S, timeout=0, restart_delay=0, observer=diary) as arbiter:
        stopped = asyncio.create_task(arbiter.call(STUCK, "stopped_once", str(tmp_path / "mark")))
        queued = [asyncio.create_task(arbiter.call(STUCK, "busy", 0.0)) for _ in range(5)]
        assert await stopped == 2, "it is run again elsewhere, and knows it"
        assert await asyncio.gather(*queued) == ["done"] * 5
        (died,) = diary.of(WorkerExited)
        assert SILENT in died.reason
        assert SILENT in heard.of("worker 1 is killed")["message"]
        assert arbiter.ledger.lost == 0


async def test_c_code_that_holds_the_interpreter_lock_is_found_and_its_stacks_are_logged_first(heard: Records) -> None:
    async with serving(STUCK, heartbeat_timeout=HEARTBEAT_S, timeout=0) as arbiter:
        with pytest.raises(WorkerLost, match=SILENT) as lost:
            await asyncio.wait_for(arbiter.call(STUCK, "in_c"), 20)
        assert lost.value.oom_hint is None, "we killed it"
    assert place_of(heard, "in in_c") < place_of(heard, "worker 1 is killed")
    assert heard.of("Current thread")["extra"]["worker"] == 1


async def test_a_call_that_silences_each_worker_is_put_away() -> None:
    settings = {"heartbeat_timeout": HEARTBEAT_S, "timeout": 0, "restart_delay": 0, "crash_limit": 2}
    async with serving(STUCK, **settings) as arbiter:
        with pytest.raises(PoisonCall) as poison:
            await asyncio.wait_for(arbiter.call(STUCK, "stopped_each_time"), 30)
        assert [SILENT in death for death in poison.value.history] == [True, True]


async def test_who_computes_or_waits_for_long_is_not_stuck() -> None:
    async with serving(STUCK, BASIC, heartbeat_timeout=HEARTBEAT_S) as arbiter:
        before = pids(arbiter)
        waiting = asyncio.create_task(arbiter.call(BASIC, "asleep", 2.5 * HEARTBEAT_S, "waited"))
        assert await arbiter.call(STUCK, "busy", 2.5 * HEARTBEAT_S) == "done"
        assert await arbiter.call(BASIC, "sleep", 2 * HEARTBEAT_S) == 2 * HEARTBEAT_S
        assert await waiting == "waited"
        assert pids(arbiter) == before


async def test_who_speaks_is_alive_even_without_a_pulse() -> None:
    chunks = int(3 * HEARTBEAT_S / 0.05)
    seen: list[int] = []
    async with serving(STUCK, heartbeat_timeout=HEARTBEAT_S, timeout=0) as arbiter:
        with pytest.raises(WorkerLost, match=SILENT):
            async for number in arbiter.stream(STUCK, "without_pulse", (chunks,)):
                seen.append(number)
        assert seen == list(range(chunks)), "it was killed while it spoke"


async def test_an_idle_worker_is_not_asked_and_may_be_stopped_for_a_while() -> None:
    async with serving(STUCK, heartbeat_timeout=HEARTBEAT_S) as arbiter:
        assert await arbiter.call(STUCK, "busy", 0.0) == "done"
        before = pids(arbiter)
        process = psutil.Process(*before)
        process.suspend()
        await asyncio.sleep(2 * HEARTBEAT_S)  # as long as it would take
        process.resume()
        assert await arbiter.call(STUCK, "busy", 0.0) == "done"
        assert pids(arbiter) == before


async def test_without_a_heartbeat_there_is_no_line_for_it() -> None:
    async with serving(heartbeat_timeout=0) as arbiter:
        sockets = [fd for fd in await arbiter.call(BASIC, "descriptors") if fd.startswith("socket:")]
        assert len(sockets) == 1


# --- stacks before the kill ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["in_python", "in_c", "asleep"])
async def test_a_stuck_call_costs_one_worker_and_nobody_else_waits(action: str, heard: Records) -> None:
    settings = {"workers": 2, "cancel_grace": 0.3, "restart_delay": 0, "heartbeat_timeout": 30}
    diary = Diary()
    async with serving(STUCK, BASIC, observer=diary, **settings) as arbiter:
        began_at = time.monotonic()
        stuck = asyncio.create_task(arbiter.call(STUCK, action, timeout_s=0.5))
        slowest = 0.0
        while not diary.of(WorkerExited):
            asked_at = time.monotonic()
            assert await arbiter.call(BASIC, "echo", asked_at) == asked_at
            slowest = max(slowest, time.monotonic() - asked_at)
            await asyncio.sleep(0.01)
        took_s = time.monotonic() - began_at
        with pytest.raises(DirtyTimeoutError, match="it was running"):
            await stuck
        # timeout, grace and the stacks; the rest is for a busy machine
        assert 0.8 <= took_s < 3
        assert slowest < 1
        await until(lambda: len(pids(arbiter)) == 2)
        assert arbiter.ledger.lost == 0
    assert place_of(heard, f"in {action}") < place_of(heard, "is killed")


async def test_a_stopped_worker_shows_no_stacks_and_is_killed_all_the_same(heard: Records) -> None:
    diary = Diary()
    async with serving(STUCK, cancel_grace=0.1, heartbeat_timeout=30, observer=diary) as arbiter:
        with pytest.raises(DirtyTimeoutError):
            await arbiter.call(STUCK, "stopped", timeout_s=0.2)
        told_at = time.monotonic()
        await until(lambda: diary.of(WorkerExited))
        assert time.monotonic() - told_at < 2
    assert not [text for text in heard.texts() if "most recent call first" in text]


async def test_a_kill_of_all_does_not_wait_for_stacks() -> None:
    diary = Diary()
    async with serving(STUCK, cancel_grace=0, heartbeat_timeout=30, observer=diary) as arbiter:
        call = asyncio.create_task(arbiter.call(STUCK, "stopped"))
        process = psutil.Process(*pids(arbiter))
        await until(lambda: process.status() == psutil.STATUS_STOPPED)
        call.cancel()  # whereupon it is asked for its stacks, and cannot answer
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: [w["state"] for w in arbiter.status()["workers"]] == ["killed"])
        assert process.status() == psutil.STATUS_STOPPED
        arbiter.kill()
        # the loop does not turn meanwhile, so nothing else can end it
        assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222


async def test_a_boot_that_hangs_says_in_which_step_of_which_app_and_where(heard: Records) -> None:
    with pytest.raises(BootFailed) as failed:
        async with serving(HANGS, boot_timeout="1s"):
            pass
    details = failed.value.details
    assert (details["step"], details["app"]) == ("init", HANGS)
    assert 0.3 < details["duration_s"] < 5
    assert "init of tests.apps.broken:Hangs failed after" in str(failed.value)
    assert any("in init" in line for line in details["stderr"])
    assert place_of(heard, "in init") < place_of(heard, "is killed: it did not finish booting")


# --- how it ended, by itself --------------------------------------------------------------------------------------


async def test_a_worker_that_dies_while_it_boots_says_in_which_step() -> None:
    with pytest.raises(BootFailed) as failed:
        async with serving("tests.apps.broken:DiesInInit"):
            pass
    details = failed.value.details
    assert (details["step"], details["app"], details["exit_code"]) == ("init", "tests.apps.broken:DiesInInit", 5)
    assert details["stderr"] == ["last words"]


async def test_an_import_that_ends_the_process_is_named(tmp_path: Path) -> None:
    (tmp_path / "ends_all.py").write_text("import os\n\nos._exit(4)\n")
    with pytest.raises(BootFailed, match="import of ends_all:App failed") as failed:
        async with serving("ends_all:App", pythonpath=(str(tmp_path),)):
            pass
    assert (failed.value.details["step"], failed.value.details["app"]) == ("import", "ends_all:App")


async def test_a_kill_that_nobody_here_sent_says_whether_memory_was_short() -> None:
    async with serving() as arbiter:
        call = asyncio.create_task(arbiter.call(BASIC, "sleep", 30))
        await until(lambda: [w["state"] for w in arbiter.status()["workers"]] == ["busy"])
        await until(lambda: has_begun(arbiter))
        (pid,) = pids(arbiter)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerLost) as lost:
            await call
    assert lost.value.oom_hint in (False, None), "None where the kernel does not count"
    if lost.value.oom_hint is False:
        assert str(lost.value).endswith("nobody here sent it; the kernel's out-of-memory counter did not move")


def has_begun(arbiter: Arbiter) -> bool:
    crew = arbiter._interpreter.crew
    return any(record.child is not None and record.child.was_begun(call) for record in crew for call in record.calls)
