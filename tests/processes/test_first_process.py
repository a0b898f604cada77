"""``dirtybus run`` as the first process of a namespace, as containers have it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes.entries import RESIDENT, Owner, command_of, started, until

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")


def may_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], check=False, capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif("not may_unshare()", reason="this user may not make a PID namespace with unshare")


@asynccontextmanager
async def first(at: Path, **options: Any) -> AsyncIterator[tuple[Owner, psutil.Process]]:
    """Yield an owner in a namespace of its own, and the first process there as it is seen from outside."""
    async with started([*UNSHARE, *command_of("dirtybus run", at, {"workers": 2})], at, **options) as owner:
        (process,) = psutil.Process(owner.process.pid).children()
        yield owner, process


async def test_what_actions_left_behind_is_reaped(tmp_path: Path) -> None:
    async with first(tmp_path) as (owner, process):
        assert owner.pid == 2  # in the namespace
        for _ in range(10):
            await owner.client.execute_async(RESIDENT, "orphan", 10)
        await until(lambda: len(process.children()) == 1)
        everybody = [process, *process.children(recursive=True)]
        assert not [each for each in everybody if each.status() == psutil.STATUS_ZOMBIE]
        process.terminate()
        assert await owner.code() == 0, owner.log


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT], ids=lambda signum: signum.name)
async def test_a_signal_to_it_drains_and_a_second_one_is_cold(signum: signal.Signals, tmp_path: Path) -> None:
    async with first(tmp_path) as (owner, process):
        call = owner.rest(60.0)
        await owner.until_running(1)
        process.send_signal(signum)
        await owner.until(lambda status: status["state"] == "draining")
        process.send_signal(signum)
        assert await owner.code() == 128 + signum, owner.log
        await asyncio.gather(call, return_exceptions=True)


async def test_an_owner_that_was_killed_makes_an_exit_code_and_leaves_nobody(tmp_path: Path) -> None:
    async with first(tmp_path) as (owner, process):
        everybody = process.children(recursive=True)
        process.children()[0].kill()
        assert await owner.code() == 128 + signal.SIGKILL
        await until(lambda: not any(each.is_running() for each in everybody))


async def test_ctrl_c_at_its_terminal_comes_once(tmp_path: Path) -> None:
    person, program = pty.openpty()
    try:
        command = ["setsid", "--ctty", "--wait", *UNSHARE, *command_of("dirtybus run", tmp_path, {})]
        async with started(command, tmp_path, stdin=program, start_new_session=False) as owner:
            call = owner.rest(0.5)
            await owner.until_running(1)
            os.write(person, b"\x03")
            assert await call == 0.5
            assert await owner.code() == 0, owner.log
    finally:
        os.close(person)
        os.close(program)
