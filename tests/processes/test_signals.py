"""Every signal of the table in docs/lifecycle.md, at both ways to start an owner."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from dirtybus.errors import DirtyConnectionError, DirtyError
from tests.processes.entries import ENTRIES, RESIDENT, Owner, owner_by, until

Check = Callable[[Owner], Awaitable[None]]


async def ends_with(owner: Owner, code: int) -> None:
    assert await owner.code() == code, owner.log


async def drains(owner: Owner, signum: signal.Signals) -> None:
    running = owner.rest(0.5)
    await owner.until_running(1)
    owner.send(signum)
    assert await running == 0.5
    await ends_with(owner, 0)
    assert "calls: submitted=1 succeeded=1 failed=0" in logged(owner)


def logged(owner: Owner) -> str:
    return owner.log + (owner.log_file.read_text() if owner.log_file.exists() else "")


async def term(owner: Owner) -> None:
    await drains(owner, signal.SIGTERM)


async def int_(owner: Owner) -> None:
    await drains(owner, signal.SIGINT)


async def quit_(owner: Owner) -> None:
    running = owner.rest(60.0)
    await owner.until_running(1)
    workers = owner.children()
    sent_at = time.monotonic()
    owner.send(signal.SIGQUIT)
    with pytest.raises(DirtyError):
        await running
    await ends_with(owner, 128 + signal.SIGQUIT)
    assert time.monotonic() - sent_at < 3.0  # 1 s, and what a busy machine adds
    await until(lambda: not any(map(is_alive, workers)))


async def hup(owner: Owner) -> None:
    before = {worker["pid"] for worker in (await owner.status())["workers"]}
    running = owner.rest(0.5)
    await owner.until_running(1)
    owner.send(signal.SIGHUP)
    assert await running == 0.5
    after = await owner.until(lambda status: not before & {each["pid"] for each in status["workers"]})
    assert {each["pid"] for each in after["workers"]}
    assert await owner.client.execute_async(RESIDENT, "echo", 1) == 1
    await until(lambda: "reloaded: the new workers serve" in logged(owner))
    owner.send(signal.SIGTERM)
    await ends_with(owner, 0)


async def usr1(owner: Owner) -> None:
    of_worker = owner.at / "worker.log"
    await owner.client.execute_async(RESIDENT, "note", "before")
    owner.log_file.rename(owner.at / "owner.log.1")
    of_worker.rename(owner.at / "worker.log.1")
    owner.send(signal.SIGUSR1)
    await until(lambda: owner.log_file.exists() and of_worker.exists())
    await owner.client.execute_async(RESIDENT, "note", "after")
    assert of_worker.read_text() == "after\n"
    assert (owner.at / "worker.log.1").read_text() == "before\n"
    owner.send(signal.SIGTERM)
    await ends_with(owner, 0)


async def ttin(owner: Owner) -> None:
    owner.send(signal.SIGTTIN)
    await owner.until(lambda status: status["target"] == 2 and len(status["workers"]) == 2)
    owner.send(signal.SIGTERM)
    await ends_with(owner, 0)


async def ttou(owner: Owner) -> None:
    owner.send(signal.SIGTTIN)
    await owner.until(lambda status: [each["state"] for each in status["workers"]] == ["idle", "idle"])
    owner.send(signal.SIGTTOU)
    await owner.until(lambda status: status["target"] == 1 and len(status["workers"]) == 1)
    owner.send(signal.SIGTTOU)
    await until(lambda: "SIGTTOU: Cannot decrease below 1 worker (required by app specs)" in logged(owner))
    assert (await owner.status())["target"] == 1
    owner.send(signal.SIGTERM)
    await ends_with(owner, 0)


async def chld(owner: Owner) -> None:
    owner.send(signal.SIGCHLD)
    (worker,) = owner.children()
    os.kill(worker.pid, signal.SIGKILL)
    await until(lambda: worker.pid not in {each.pid for each in owner.children()})
    await owner.until(lambda status: [each["state"] for each in status["workers"]] == ["idle"])
    assert not any(each.status() == psutil.STATUS_ZOMBIE for each in owner.children())
    await drains(owner, signal.SIGTERM)


CHECKS: dict[signal.Signals, Check] = {
    signal.SIGTERM: term,
    signal.SIGINT: int_,
    signal.SIGQUIT: quit_,
    signal.SIGHUP: hup,
    signal.SIGUSR1: usr1,
    signal.SIGTTIN: ttin,
    signal.SIGTTOU: ttou,
    signal.SIGCHLD: chld,
}


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("signum", CHECKS, ids=lambda signum: signum.name)
async def test_each_signal_does_what_the_table_says(signum: signal.Signals, entry: str, tmp_path: Path) -> None:
    env = {"RESIDENT_LOG": str(tmp_path / "worker.log")}
    async with owner_by(entry, tmp_path, env=env, logs_to_file=True) as owner:
        await CHECKS[signum](owner)


async def test_workers_are_reaped_when_the_user_handles_sigchld(tmp_path: Path) -> None:
    async with owner_by("launch_blocking", tmp_path, env={"OWN_SIGCHLD": "1"}) as owner:
        for _ in range(3):
            await chld_once(owner)
        await drains(owner, signal.SIGTERM)


async def chld_once(owner: Owner) -> None:
    before = await owner.until(lambda status: [each["state"] for each in status["workers"]] == ["idle"])
    pid = before["workers"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT], ids=lambda signum: signum.name)
async def test_the_second_signal_is_cold(signum: signal.Signals, entry: str, tmp_path: Path) -> None:
    async with owner_by(entry, tmp_path) as owner:
        running = owner.rest(60.0)
        await owner.until_running(1)
        owner.send(signum)
        await until(lambda: "leaving; work in progress" in owner.log)
        sent_at = time.monotonic()
        owner.send(signum)
        with pytest.raises(DirtyError):
            await running
        await ends_with(owner, 128 + signum)
        assert time.monotonic() - sent_at < 3.0  # 1 s, and what a busy machine adds


async def test_a_second_signal_ends_the_delay_before_the_drain_too(tmp_path: Path) -> None:
    async with owner_by("dirtybus run", tmp_path, drain_delay=60) as owner:
        owner.send(signal.SIGTERM)
        await owner.until(lambda status: status["state"] == "leaving")
        owner.send(signal.SIGTERM)
        await ends_with(owner, 128 + signal.SIGTERM)
        with pytest.raises(DirtyConnectionError):
            await asyncio.to_thread(owner.client.status)
