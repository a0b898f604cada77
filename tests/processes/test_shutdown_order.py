"""The order of an end, proven by a trace that the owner, its worker and a client write on one clock."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from dirtybus.client import DirtyClient
from dirtybus.errors import Draining
from tests.processes.entries import ENTRIES, RESIDENT, owner_by, started
from tests.processes.scripts.traced_owner import APP, DRAIN_DELAY_S

WANTED = [
    "test: TERM",
    "owner: ready=False",
    "listener: drain begun, ready=False",
    "bus: a call is answered with yes",
    "client: a call is answered though the state is leaving",
    "owner: admission closed",
    "client: a call is refused",
    "worker: call answered",
    "worker: closed",
    "bus: a call is refused",
    "listener: drain ended, clean=True, stash=True",
    "owner: ended, stash=False",
    "test: exit code 0",
]


def read(path: Path) -> list[tuple[float, str]]:
    lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
    return sorted((float(moment), what) for moment, what in lines)


async def until_refused(client: DirtyClient) -> float:
    """Call until a call is refused as draining; return when that was."""
    while True:
        try:
            await client.execute_async(APP, "echo", 1)
        except Draining:
            return time.monotonic()
        await asyncio.sleep(0.005)


async def test_an_end_goes_through_its_steps_in_order(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    events: list[tuple[float, str]] = []

    def note(what: str, at: float | None = None) -> None:
        events.append((time.monotonic() if at is None else at, what))

    command = [sys.executable, "-m", "tests.processes.scripts.traced_owner", str(tmp_path / "s")]
    async with started(command, tmp_path, env={"TRACE": str(path)}) as owner:
        assert (await owner.status())["ready"] is True
        running = asyncio.create_task(owner.client.execute_async(APP, "rest", DRAIN_DELAY_S + 1.0))
        await owner.until_running(1)
        note("test: TERM")
        os.kill(owner.pid, signal.SIGTERM)
        status = await owner.until(lambda status: not status["ready"])
        assert status["state"] == "leaving"
        assert await owner.client.execute_async(APP, "echo", "still") == "still"
        note(f"client: a call is answered though the state is {status['state']}")
        note("client: a call is refused", await until_refused(owner.client))
        assert await running == DRAIN_DELAY_S + 1.0
        note(f"test: exit code {await owner.code()}")
    trace = sorted([*read(path), *events])
    moments: dict[str, float] = {}
    for at, what in trace:
        moments.setdefault(what, at)  # admission may be closed more than once
    steps = list(moments)
    steps[3:5] = sorted(steps[3:5])  # two callers in two processes: either may be the first
    assert steps == WANTED, trace
    assert moments["owner: admission closed"] - moments["owner: ready=False"] >= DRAIN_DELAY_S


async def long_call_and_term(entry: str, at: Path, call_s: float) -> None:
    """A call of so many seconds, TERM after 1 s: it is answered in full, and a new one is refused."""
    async with owner_by(entry, at) as owner:
        began_at = time.monotonic()
        running = owner.rest(call_s)
        await owner.until_running(1)
        await asyncio.sleep(max(0.0, began_at + 1.0 - time.monotonic()))
        owner.send(signal.SIGTERM)
        await owner.until(lambda status: status["state"] == "draining")
        with pytest.raises(Draining, match="shutting down"):
            await owner.client.execute_async(RESIDENT, "echo", 1)
        assert not running.done()
        assert await running == call_s
        assert call_s <= time.monotonic() - began_at < call_s + 2.0
        assert await owner.code() == 0


@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_call_of_three_seconds_is_answered_after_a_term_at_one(entry: str, tmp_path: Path) -> None:
    await long_call_and_term(entry, tmp_path, 3.0)


@pytest.mark.slow
async def test_a_call_of_eight_seconds_is_answered_after_a_term_at_one(tmp_path: Path) -> None:
    await long_call_and_term("dirtybus run", tmp_path, 8.0)
