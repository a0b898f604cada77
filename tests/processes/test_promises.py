"""The promises, tried on whole processes: signals come in, and what was accepted is answered."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dirtybus.client import DirtyClient
from tests.arbiter.serving import BASIC, serving, until

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
WITHIN_S = 45.0


def as_pid_1(*command: str) -> list[str]:
    """Return the command that runs ``command`` as the first process of a namespace of its own."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("unshare --pid is not permitted here")
    return [unshare, "--pid", "--fork", *command]


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command; it is killed at the end if it still lives."""
    one = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd=ROOT
    )
    try:
        yield one
    finally:
        if one.returncode is None:
            one.kill()
            await one.wait()
        one._transport.close()  # type: ignore[attr-defined]  # asyncio has no public way, and warns of it later


async def line_of(one: asyncio.subprocess.Process, start: str) -> str:
    """Return the next line of output that begins with ``start``."""
    assert one.stdout is not None
    async with asyncio.timeout(WITHIN_S):
        while line := (await one.stdout.readline()).decode():
            if line.startswith(start):
                return line.removeprefix(start).strip()
    raise AssertionError(f"the process ended without a line that begins with {start!r}")


async def report_after_term(one: asyncio.subprocess.Process, pid: int) -> tuple[dict[str, Any], int]:
    os.kill(pid, signal.SIGTERM)
    report = json.loads(await line_of(one, "REPORT"))
    async with asyncio.timeout(WITHIN_S):
        return report, await one.wait()


async def test_term_during_twenty_running_and_two_hundred_queued_calls_loses_none() -> None:
    async with process(sys.executable, "-m", "tests.processes.scripts.busy_owner") as owner:
        await line_of(owner, "BUSY")
        report, code = await report_after_term(owner, owner.pid)
    assert report["ledger"]["succeeded"] == 220
    assert (report["answered"], report["failed"], report["unsettled"], code) == (220, 0, 0, 0)


async def test_term_to_pid_1_drains_too() -> None:
    async with process(*as_pid_1(sys.executable, "-m", "tests.processes.scripts.busy_owner")) as unshare:
        assert await line_of(unshare, "BUSY") == "1"
        first = psutil.Process(unshare.pid).children()[0]
        report, code = await report_after_term(unshare, first.pid)
    assert (report["answered"], report["failed"], report["unsettled"], code) == (220, 0, 0, 0)


@pytest.mark.parametrize("is_first", [False, True])
async def test_term_to_the_command_line_owner_loses_no_call_of_an_attached_client(
    tmp_path: Path, is_first: bool
) -> None:
    path = str(tmp_path / "owner.sock")
    run = [sys.executable, "-m", "dirtybus", "run", BASIC, "--workers", "2", "--threads", "10", "--socket", path]
    reading, writing = os.pipe()
    command = [*run, "--ready-fd", str(writing)]
    owner = subprocess.Popen(  # noqa: ASYNC220 - a start of a few milliseconds, with nothing beside it
        as_pid_1(*command) if is_first else command, cwd=ROOT, stderr=subprocess.DEVNULL, pass_fds=(writing,)
    )
    os.close(writing)
    try:
        assert await asyncio.to_thread(os.read, reading, 64) == b"READY\n"
        client = DirtyClient(path)
        calls = [asyncio.create_task(client.execute_async(BASIC, "sleep", 0.4)) for _ in range(220)]
        watcher = DirtyClient(path)

        def is_busy() -> bool:
            status = watcher.status()
            running: int = sum(w["running"] for w in status["workers"])
            return running == 20 and bool(status["queued"].get(BASIC, 0) == 200)

        async with asyncio.timeout(WITHIN_S):
            while not await asyncio.to_thread(is_busy):
                await asyncio.sleep(0.01)
        pid = psutil.Process(owner.pid).children()[0].pid if is_first else owner.pid
        os.kill(pid, signal.SIGTERM)
        assert await asyncio.gather(*calls) == [0.4] * 220
        assert await asyncio.to_thread(owner.wait, WITHIN_S) == 0
        await client.close_async()
        watcher.close()
    finally:
        os.close(reading)
        if owner.poll() is None:
            owner.kill()
            owner.wait()
    assert not Path(path).exists()


@pytest.mark.parametrize("how", ["idle", "asleep", "in_python", "in_c"])
async def test_kill_9_of_the_owner_leaves_no_orphan_for_a_second(how: str) -> None:
    async with process(sys.executable, "-m", "tests.processes.scripts.plain_owner", how) as owner:
        assert owner.stdout is not None
        pids = json.loads((await owner.stdout.readline()).decode())
        assert len(pids) == 2
        owner.kill()
        await owner.wait()
        killed_at = time.monotonic()
        await until(lambda: not any(map(is_alive, pids)), within_s=10)
        assert time.monotonic() - killed_at < 1.0


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def worst_lateness_s(span_s: float) -> float:
    """Return how late a 10 ms ticker on this loop was at worst."""
    loop = asyncio.get_running_loop()
    worst, until_at = 0.0, loop.time() + span_s
    while (now := loop.time()) < until_at:
        await asyncio.sleep(0.01)
        worst = max(worst, loop.time() - now - 0.01)
    return worst


@pytest.mark.slow
async def test_the_loop_ticks_on_while_a_worker_computes() -> None:
    async with serving() as arbiter:
        for _ in range(3):  # the machine's own hiccups are not ours: a quiet try is enough
            baseline = await worst_lateness_s(5.0)
            spin = asyncio.create_task(arbiter.call(BASIC, "spin", 5.0))
            late = await worst_lateness_s(5.0)
            assert await spin > 0
            if late <= baseline + 0.025:
                return
        pytest.fail(f"a tick came {late * 1000:.0f} ms late; {baseline * 1000:.0f} ms without work")
