"""Who starts and stops an owner: a terminal, a process group, a shell, systemd, a kubelet."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import shlex
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dirtybus.errors import Draining
from tests.processes.entries import ENTRIES, RESIDENT, Owner, command_of, owner_by, started, until

CTRL_C = b"\x03"


async def mixed_work(owner: Owner) -> list[asyncio.Task[Any]]:
    """One call that runs and three that wait."""
    calls = [owner.rest(0.4) for _ in range(4)]
    await owner.until(lambda status: sum(status["queued"].values()) == 3)
    return calls


# --- terminals and groups ---


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Yield both ends of a terminal: the one that a person types at, and the one of the program."""
    person, program = pty.openpty()
    try:
        yield person, program
    finally:
        os.close(person)
        os.close(program)


@pytest.mark.parametrize("entry", ENTRIES)
async def test_ctrl_c_at_a_terminal_drains(entry: str, tmp_path: Path) -> None:
    with terminal() as (person, program):

        def at_terminal() -> None:
            fcntl.ioctl(program, termios.TIOCSCTTY, 0)  # the leader of the new session is its foreground group, too

        command = command_of(entry, tmp_path, {})
        async with started(command, tmp_path, stdin=program, preexec_fn=at_terminal) as owner:
            assert os.tcgetpgrp(person) == owner.pid
            calls = await mixed_work(owner)
            os.write(person, CTRL_C)
            assert await asyncio.gather(*calls) == [0.4] * 4
            assert await owner.code() == 0, owner.log


@pytest.mark.parametrize("how", ["SIGINT to the group", "SIGTERM to the group", "SIGTERM to the process"])
async def test_a_signal_to_the_group_and_one_to_the_process_are_alike(how: str, tmp_path: Path) -> None:
    async with owner_by("dirtybus run", tmp_path) as owner:
        calls = await mixed_work(owner)
        if how == "SIGTERM to the process":
            os.kill(owner.pid, signal.SIGTERM)
        else:
            os.killpg(owner.pid, signal.Signals[how.split()[0]])
        answered = await asyncio.gather(*calls)
        assert (len(answered), await owner.code()) == (4, 0), owner.log
        assert "calls: submitted=4 succeeded=4 failed=0 cancelled=0 expired=0 refused=0 lost=0" in owner.log


# --- shells ---


async def test_a_shell_in_between_is_warned_of(tmp_path: Path) -> None:
    line = f"{shlex.join(command_of('dirtybus run', tmp_path, {}))}; true"
    async with started(["sh", "-c", line], tmp_path) as owner:
        assert owner.pid != owner.process.pid
        assert "which does not pass SIGTERM on" in owner.log
        assert "Write `exec` before the command" in owner.log
        owner.send(signal.SIGTERM)
        await until(lambda: not psutil.pid_exists(owner.pid))


@pytest.mark.parametrize("entry", ENTRIES)
async def test_behind_exec_there_is_no_shell_and_term_drains(entry: str, tmp_path: Path) -> None:
    line = f"exec {shlex.join(command_of(entry, tmp_path, {}))}"
    async with started(["sh", "-c", line], tmp_path) as owner:
        assert owner.pid == owner.process.pid
        assert "SIGTERM on" not in owner.log
        calls = await mixed_work(owner)
        owner.process.terminate()
        assert await asyncio.gather(*calls) == [0.4] * 4
        assert await owner.code() == 0


# --- service managers ---


async def stopped(owner: Owner, *, grace_s: float) -> float:
    """TERM to the main process alone, KILL to the whole group after ``grace_s``; return how long it took."""
    began_at = time.monotonic()
    os.kill(owner.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(owner.process.wait(), grace_s)
    except TimeoutError:
        os.killpg(owner.pid, signal.SIGKILL)
        await owner.process.wait()
    return time.monotonic() - began_at


async def test_systemd_stops_it_with_one_term_before_its_kill(tmp_path: Path) -> None:
    async with owner_by("dirtybus run", tmp_path, graceful_timeout=3, stop_grace=8, workers=2) as owner:
        workers = owner.children()
        calls = [owner.rest(0.4) for _ in range(8)]
        await owner.until(lambda status: sum(status["queued"].values()) == 6)
        took_s = await stopped(owner, grace_s=8.0)
        assert await asyncio.gather(*calls) == [0.4] * 8
        assert owner.process.returncode == 0, owner.log
        assert took_s < 8.0
        assert not any(psutil.pid_exists(each.pid) for each in workers)


async def test_work_that_outlasts_its_time_is_cut_before_the_kill_and_the_code_says_so(tmp_path: Path) -> None:
    async with owner_by("dirtybus run", tmp_path, graceful_timeout=0.5, stop_grace=6) as owner:
        call = owner.rest(60.0)
        await owner.until_running(1)
        took_s = await stopped(owner, grace_s=6.0)
        with pytest.raises(Draining):
            await call
        assert owner.process.returncode == 124, owner.log
        assert took_s < 6.0


async def test_a_kubelet_waits_then_terms_and_never_needs_its_kill(tmp_path: Path) -> None:
    grace_s, pre_stop_s = 10.0, 0.5
    settings: dict[str, Any] = {"graceful_timeout": 3, "drain_delay": 0.5, "stop_grace": grace_s - pre_stop_s}
    async with owner_by("dirtybus run", tmp_path, **settings) as owner:
        call = owner.rest(1.5)
        await owner.until_running(1)
        began_at = time.monotonic()
        await asyncio.sleep(pre_stop_s)  # what `preStop: sleep` does; traffic goes on meanwhile
        late = owner.rest(0.1)
        await owner.until(lambda status: sum(status["queued"].values()) == 1)
        await stopped(owner, grace_s=grace_s - pre_stop_s)
        assert (await call, await late) == (1.5, 0.1)
        assert owner.process.returncode == 0, owner.log
        assert time.monotonic() - began_at < grace_s


@pytest.mark.parametrize("entry", ENTRIES)
async def test_spans_that_the_supervisor_would_cut_stop_the_start(entry: str, tmp_path: Path) -> None:
    command = command_of(entry, tmp_path, {"graceful_timeout": 30, "drain_delay": 10, "stop_grace": 30})
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, told = await process.communicate()
    assert process.returncode == (2 if entry == "dirtybus run" else 1)
    assert b"stop_grace_s is 30, but a shutdown may take 45 s" in told


async def test_an_action_that_a_shutdown_would_cut_is_warned_of_once(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"apps": [RESIDENT, "tests.apps.basic:Basic"], "graceful_timeout": 0.1, "timeout": 0.1}
    async with owner_by("dirtybus run", tmp_path, cancel_grace=0.05, **settings) as owner:
        assert owner.log.count("calls of tests.apps.basic:Basic impatient (0.2 s) may take longer than a shutdown") == 1
        owner.send(signal.SIGTERM)
        assert await owner.code() == 0
