"""Runs a scenario of ``scripts/app.py`` as a process of its own: signals go in, lines and an exit code come out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: generous, as both cores may be busy; no test waits so long when all is well
WITHIN_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a scenario ended. ``took_s`` counts from the last signal, or from the start when there was none."""

    code: int
    lines: Sequence[str]
    log: str
    took_s: float

    def order(self, *wanted: str) -> list[str]:
        """Return those of the lines that are among the wanted ones, as they came."""
        return [line for line in self.lines if line in wanted]


class Running:
    """A scenario that runs."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._lines: list[str] = []
        self._signalled_at = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def until(self, line: str) -> None:
        """Wait for that line of its output."""
        while line not in self._lines:
            if not await self._read_line():
                raise AssertionError(f"ended before it said {line!r}: {self._lines}\n{self._log.read_text()}")

    def send(self, signum: signal.Signals, *, to: int | None = None) -> None:
        """Send a signal to the process; to the group of the process with a negative ``to``."""
        self._signalled_at = time.monotonic()
        target = self.pid if to is None else to
        if target < 0:
            os.killpg(-target, signum)
        else:
            os.kill(target, signum)

    async def end(self) -> Ended:
        """Wait for the end of the process."""
        async with asyncio.timeout(WITHIN_S):
            # its children may keep the pipe open, so the end is the process's
            code = await self._process.wait()
        took_s = time.monotonic() - self._signalled_at
        while await self._read_line():
            pass
        return Ended(code=code, lines=tuple(self._lines), log=self._log.read_text(), took_s=took_s)

    async def _read_line(self) -> bool:
        assert self._process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            line = await self._process.stdout.readline()
        if line:
            self._lines.append(line.decode().rstrip("\n"))
        return bool(line)


@asynccontextmanager
async def scenario(
    name: str,
    *,
    log: Path,
    how: str = "blocking",
    prefix: Sequence[str] = (),
    module: str = "tests.services.scripts.app",
) -> AsyncIterator[Running]:
    """Start a scenario; whatever still runs of it is killed at the end of the block."""
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, "-m", "tests.services.scripts.app", name, how),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield Running(process, log)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        # the transport closes its pipe only once it has seen the end of it
        process._transport.close()  # type: ignore[attr-defined]


async def run(name: str, *signals: signal.Signals, log: Path, after: str = "running", how: str = "blocking") -> Ended:
    """Run a scenario to its end; send each signal after ``after`` was said, or after the drain began."""
    async with scenario(name, log=log, how=how) as running:
        for number, signum in enumerate(signals):
            await running.until(after if number == 0 else "drain begun")
            running.send(signum)
        return await running.end()
