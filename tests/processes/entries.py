"""Both ways in which people start an owner, as a process each, told apart by nothing but how they are started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from dirtybus.client import DirtyClient

ROOT = Path(__file__).parents[2]
RESIDENT = "tests.apps.resident:Resident"
#: generous, as both cores may be busy
WITHIN_S = 45.0
ENTRIES = ("launch_blocking", "dirtybus run")


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A running owner, and a client of it. ``pid`` is the owner's own, whoever started it."""

    process: asyncio.subprocess.Process
    client: DirtyClient
    pid: int
    at: Path

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.at / "stderr").read_text()

    @property
    def log_file(self) -> Path:
        """Where its log file is, if it was given one."""
        return self.at / "owner.log"

    def send(self, signum: signal.Signals) -> None:
        os.kill(self.pid, signum)

    async def code(self) -> int:
        """Wait for its end and return its exit code."""
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()

    async def status(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.client.status)

    async def until(self, fact: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until its status is such."""
        async with asyncio.timeout(WITHIN_S):
            while not fact(status := await self.status()):
                await asyncio.sleep(0.01)
        return status

    async def until_running(self, calls: int) -> None:
        await self.until(lambda status: sum(worker["running"] for worker in status["workers"]) == calls)

    def rest(self, span_s: float) -> asyncio.Task[Any]:
        return asyncio.create_task(self.client.execute_async(RESIDENT, "rest", span_s))

    def children(self) -> list[psutil.Process]:
        found: list[psutil.Process] = psutil.Process(self.pid).children()
        return found


async def until(fact: Callable[[], object]) -> None:
    """Wait for a fact that nobody tells us of."""
    async with asyncio.timeout(WITHIN_S):
        while not fact():
            await asyncio.sleep(0.01)


def command_of(entry: str, at: Path, settings: Mapping[str, Any], *, logs_to_file: bool = False) -> list[str]:
    """Write the settings into a file and return the command that serves with them."""
    file, log_file = at / "dirtybus.toml", str(at / "owner.log") if logs_to_file else ""
    lines = {"apps": [RESIDENT], "socket": str(at / "s"), **settings}
    file.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in lines.items()))
    if entry == "dirtybus run":
        given = ["--log-file", log_file] if log_file else []
        return [sys.executable, "-m", "dirtybus", "run", "--config", str(file), *given]
    return [sys.executable, "-m", "tests.processes.scripts.bus_owner", str(file), log_file]


def _toml(value: object) -> str:
    return repr(value).replace("'", '"')


@asynccontextmanager
async def started(
    command: Sequence[str], at: Path, *, env: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[Owner]:
    """Start an owner and wait until it takes calls. Whatever still runs of its session is killed at the end."""
    with (at / "stderr").open("wb") as stderr:
        options = {"stdout": asyncio.subprocess.DEVNULL, "stderr": stderr, "start_new_session": True, **options}
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={**os.environ, **(env or {})}, **options)
    client = DirtyClient(str(at / "s"))
    try:
        await until(lambda: (at / "s").exists() or process.returncode is not None)
        assert process.returncode is None, (at / "stderr").read_text()
        status = await asyncio.to_thread(client.status)  # it waits in the socket until calls are taken
        yield Owner(process=process, client=client, pid=status["pid"], at=at)
    finally:
        await client.close_async()
        client.close()
        for each in _session(process.pid):
            each.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public way, and warns of it later


def _session(leader: int) -> list[psutil.Process]:
    found = []
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == leader:
                found.append(each)
        except ProcessLookupError:
            continue
    return found


@asynccontextmanager
async def owner_by(
    entry: str, at: Path, *, env: Mapping[str, str] | None = None, logs_to_file: bool = False, **settings: Any
) -> AsyncIterator[Owner]:
    """Run an owner that was started in one of the two ways."""
    async with started(command_of(entry, at, settings, logs_to_file=logs_to_file), at, env=env) as owner:
        yield owner
