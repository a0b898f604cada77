"""The processes of outside callers: started, told to stop, killed when that is their part. Only these are killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

__all__ = ["Crowd"]

_ROOT = Path(__file__).parents[2]


class Crowd:
    """Callers around one arbiter.

    Args:
        socket_path: where the arbiter listens.
        records_path: where they write what became of their calls.
        seed: what their calls are drawn from.
    """

    def __init__(self, socket_path: Path, records_path: Path, seed: int) -> None:
        self._arguments = (str(socket_path), str(records_path), str(seed))
        self._lasting: list[subprocess.Popen[bytes]] = []
        self._victim: subprocess.Popen[bytes] | None = None

    async def gather(self, *styles: str) -> None:
        """Start one process of each style, and return when all of them ask."""
        started = [self._start(style) for style in styles]
        self._lasting += started
        await asyncio.gather(*(asyncio.to_thread(_wait_for_ready, process) for process in started))

    async def replace_victim(self) -> None:
        """Kill the victim in the middle of its calls, if there is one, and start the next."""
        self._kill_victim()
        self._victim = self._start("victim")
        await asyncio.to_thread(_wait_for_ready, self._victim)

    async def dismiss(self, within_s: float) -> list[str]:
        """Let each finish the calls that it has open, and leave. Returns what went wrong with whom."""
        self._kill_victim()
        for process in self._lasting:
            assert process.stdin is not None
            process.stdin.close()
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(asyncio.to_thread(_end, process, within_s)) for process in self._lasting]
        self._lasting.clear()
        return [fault for task in waiting if (fault := task.result())]

    def kill(self) -> None:
        """End everybody at once. May be called twice."""
        self._kill_victim()
        for process in self._lasting:
            process.kill()
            _end(process, None)
        self._lasting.clear()

    def _start(self, style: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.outside", style, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )

    def _kill_victim(self) -> None:
        victim, self._victim = self._victim, None
        if victim is not None:
            victim.kill()
            _end(victim, None)


def _wait_for_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    said = process.stdout.readline()
    if said != b"READY\n" and process.poll() is None:
        raise RuntimeError(f"an outside caller said {said!r} instead of READY")


def _end(process: subprocess.Popen[bytes], within_s: float | None) -> str | None:
    """Wait for the end and close the pipes; one that does not end is killed and named."""
    fault = None
    try:
        if code := process.wait(within_s):
            fault = f"an outside caller ended with {code}: {process.args!r}"
    except subprocess.TimeoutExpired:
        fault = f"an outside caller did not end: {process.args!r}"
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return fault
