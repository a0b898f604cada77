from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from loguru import logger

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.arbiter.environment import child_environment, compute_rule
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.spawner import ChildProcess, ProcessSpawner
from dirtybus.config import DirtyConfig
from dirtybus.errors import BootFailed, WorkerLost
from dirtybus.events import WorkerExited, WorkerReady
from tests.arbiter.serving import BASIC, Diary, serving, until

ODD = "tests.apps.odd:Odd"
CONFIG = DirtyConfig.of(ODD)


class Refusing(ProcessSpawner):
    """Starts processes unless it is told to fail."""

    failing: Exception | None = None
    refused = 0

    def _popen(self, config: DirtyConfig, *fds: int) -> subprocess.Popen[bytes]:
        if self.failing is not None:
            self.refused += 1
            raise self.failing
        return super()._popen(config, *fds)


class Story:
    """What is told of one process, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[str] = []
        self.status: ExitStatus | None = None

    async def spawn(self, spawner: ProcessSpawner) -> ChildProcess:
        child = await spawner.spawn(CONFIG, lambda message: None, self.lines.append, self._note_gone)
        self.events.append("spawned")
        return child

    def _note_gone(self, status: ExitStatus) -> None:
        self.status = status
        self.events.append(f"gone after {self.lines}")


def interpreter(path: Path, script: str) -> str:
    """Write what is run in place of Python."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def no_descriptors() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def worker_pid(arbiter: Arbiter) -> int:
    pid: int = arbiter.status()["workers"][0]["pid"]
    return pid


# --- it cannot be started -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [no_descriptors(), RuntimeError("can't start new thread")])
async def test_a_worker_that_cannot_be_started_is_tried_again_and_calls_wait(failure: Exception) -> None:
    diary = Diary()
    config = DirtyConfig.of(ODD, restart_delay="20ms", restart_delay_max="40ms")
    spawner = Refusing()
    arbiter = Arbiter(config, spawner=spawner, observer=diary)
    try:
        await arbiter.start()
        arbiter.admit()
        spawner.failing = failure
        os.kill(worker_pid(arbiter), signal.SIGKILL)
        await until(lambda: spawner.refused >= 3)
        waiting = asyncio.create_task(arbiter.call(ODD, "echo", "after all"))
        await until(lambda: arbiter.ledger.open == 1)
        assert any("could not be started" in event.reason for event in diary.of(WorkerExited))
        spawner.failing = None
        assert await waiting == "after all"
    finally:
        await arbiter.close()
    gaps = len(diary.of(WorkerExited))
    assert gaps == spawner.refused + 2, "each failed start, and each process, ends once"


async def test_a_start_without_any_process_says_why() -> None:
    spawner = Refusing()
    spawner.failing = no_descriptors()
    arbiter = Arbiter(CONFIG, spawner=spawner)
    with pytest.raises(BootFailed, match="Too many open files"):
        await arbiter.start()
    await arbiter.close()


async def test_failed_starts_leak_no_descriptor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spawner, me = ProcessSpawner(), psutil.Process()
    story = Story()
    await (await first_of(spawner, story)).wait_gone()
    gc.collect()  # what tests before this one left to the collector is not ours
    before = me.num_fds()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    for _ in range(30):
        with pytest.raises(FileNotFoundError):
            await Story().spawn(spawner)
    assert me.num_fds() == before
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path / "dies", "exit 1"))
    for _ in range(30):
        await (await first_of(spawner, Story())).wait_gone()
    await until(lambda: me.num_fds() == before)
    spawner.close()
    assert me.children() == []


async def test_a_loop_that_never_rests_gets_its_processes_all_the_same() -> None:
    is_over = False

    async def hurry() -> None:
        while not is_over:
            sum(range(1000))
            await asyncio.sleep(0)

    hurrying = [asyncio.create_task(hurry()) for _ in range(10)]
    spawner = ProcessSpawner()
    try:
        for _ in range(2):  # the second is not helped by what the first has loaded
            async with asyncio.timeout(2):
                gone = await first_of(spawner, Story())
            await gone.wait_gone()
    finally:
        is_over = True
        await asyncio.gather(*hurrying)
        spawner.close()


class Gone:
    def __init__(self, story: Story, child: ChildProcess) -> None:
        self.story = story
        self.child = child

    async def wait_gone(self) -> None:
        self.child.kill()
        await until(lambda: self.story.status)


async def first_of(spawner: ProcessSpawner, story: Story) -> Gone:
    return Gone(story, await story.spawn(spawner))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
async def test_a_cancelled_start_leaves_nothing(steps: int) -> None:
    spawner, me = Refusing(), psutil.Process()
    gc.collect()  # what tests before this one left to the collector is not ours
    before, story = me.num_fds(), Story()
    starting = asyncio.create_task(story.spawn(spawner))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        (await starting).kill()  # too late to be cancelled: it is ours to end
        await until(lambda: story.status)
    await until(lambda: me.children() == [] and me.num_fds() == before)
    spawner.close()


# --- how it ends --------------------------------------------------------------------------------------------------


async def test_the_end_is_told_after_the_start_however_late_the_loop_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path / "dies", "printf 'last words'; kill -SEGV $$"))
    spawner, story = ProcessSpawner(), Story()
    starting = asyncio.create_task(story.spawn(spawner))
    while not psutil.Process().children():
        await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - the loop is busy while the process dies
    await starting
    await until(lambda: story.status)
    assert story.events == ["spawned", "gone after ['last words']"]
    assert str(story.status) == "it was killed by SIGSEGV"
    spawner.close()


async def test_what_is_printed_is_cut_into_lines_whatever_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = r"printf 'one\r\n\n  two\n'; printf '\377\n'; head -c 200000 /dev/zero | tr '\0' x; exit 5"
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path / "prints", script))
    spawner, story = ProcessSpawner(), Story()
    await story.spawn(spawner)
    await until(lambda: story.status)
    assert story.lines[:3] == ["one", "  two", "\ufffd"]
    assert "".join(story.lines[3:]) == "x" * 200_000
    assert max(map(len, story.lines)) <= 1 << 18, "a line without an end is cut"
    assert story.status == ExitStatus(5, None)
    spawner.close()


async def test_a_grandchild_that_holds_the_link_does_not_keep_a_dead_worker() -> None:
    diary = Diary()
    arbiter = Arbiter(DirtyConfig.of(ODD, restart_delay=0), observer=diary)
    grandchild = None
    try:
        await arbiter.start()
        arbiter.admit()
        grandchild = await arbiter.call(ODD, "leave_a_grandchild")
        killed_at = time.monotonic()
        os.kill(worker_pid(arbiter), signal.SIGKILL)
        await until(lambda: diary.of(WorkerExited))
        assert time.monotonic() - killed_at < 5
        assert await arbiter.call(ODD, "echo", "the next worker") == "the next worker"
        assert psutil.pid_exists(grandchild)
    finally:
        if grandchild is not None:
            os.kill(grandchild, signal.SIGKILL)
        await arbiter.close()


async def test_a_worker_that_hangs_up_but_lives_is_killed() -> None:
    diary = Diary()
    arbiter = Arbiter(DirtyConfig.of(ODD, restart_delay=0), observer=diary)
    try:
        await arbiter.start()
        arbiter.admit()
        pid = await arbiter.call(ODD, "pid")
        with pytest.raises(WorkerLost):
            await asyncio.wait_for(arbiter.call(ODD, "hang_up"), 20)
        assert not psutil.pid_exists(pid)
        assert await arbiter.call(ODD, "echo", "the next worker") == "the next worker"
    finally:
        await arbiter.close()


@pytest.mark.parametrize(("number", "name"), [(signal.SIGABRT, "SIGABRT"), (signal.SIGRTMIN + 3, "signal 37")])
async def test_the_signal_that_ended_it_is_named(number: int, name: str) -> None:
    diary = Diary()
    arbiter = Arbiter(DirtyConfig.of(ODD, restart_delay=0), observer=diary)
    try:
        await arbiter.start()
        arbiter.admit()
        with pytest.raises(WorkerLost, match=name):
            await arbiter.call(ODD, "signal_self", int(number))
        await until(lambda: len(diary.of(WorkerReady)) == 2)
        assert diary.of(WorkerExited)[0].signal == name
    finally:
        await arbiter.close()


# --- what it is given ---------------------------------------------------------------------------------------------


def test_a_workers_environment_is_ours_then_the_limits_then_the_settings() -> None:
    config = DirtyConfig.of(BASIC, compute_threads=3, env={"MKL_NUM_THREADS": "5", "MINE": "1"}, socket="bus.sock")
    child = child_environment({"OMP_NUM_THREADS": "7", "HOME": "/root"}, config)
    assert {name: child[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {
        "OMP_NUM_THREADS": "7",
        "OPENBLAS_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "5",
    }
    assert (child["HOME"], child["MINE"]) == ("/root", "1")
    assert child["DIRTYBUS_SOCKET"] == os.path.abspath("bus.sock")
    unlimited = child_environment({}, DirtyConfig.of(BASIC, compute_threads=None))
    assert "OMP_NUM_THREADS" not in unlimited


@pytest.mark.parametrize(
    ("cores", "settings", "threads"),
    [
        (8, {"workers": 2}, 4),
        (8, {"workers": 3}, 2),
        (2, {"workers": 5}, 1),
        (8, {"pool_size": "1-4"}, 2),
    ],
)
def test_the_cores_are_divided_among_the_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, settings: dict[str, Any], threads: int
) -> None:
    monkeypatch.setattr("dirtybus.arbiter.environment.cores", lambda: cores)
    config = DirtyConfig.of(BASIC, compute_threads="auto", **settings)
    assert child_environment({}, config)["OMP_NUM_THREADS"] == str(threads)
    rule = compute_rule(config)
    assert rule is not None
    assert rule.startswith(f"compute_threads: {cores} cores / ")
    assert rule.endswith(f" = {threads} in each")
    assert compute_rule(DirtyConfig.of(BASIC, compute_threads=3)) is None


async def test_workers_find_the_number_that_was_worked_out() -> None:
    lines: list[str] = []
    handler = logger.add(lines.append, level="INFO")
    async with serving(compute_threads="auto", workers=1) as arbiter:
        found = await arbiter.call(BASIC, "environment", "BLIS_NUM_THREADS")
    logger.remove(handler)
    assert any(f"/ 1 workers = {found} in each" in line for line in lines)
