"""Actions that go on until somebody stops them, and know how to stop."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from dirtybus import DirtyApp, action, current_call

PAUSE_S = 0.01


class Endless(DirtyApp):
    on_drain = "release"

    def ticks(self, path: str) -> Iterator[int]:
        number = 0
        try:
            while True:
                yield number
                number += 1
                time.sleep(PAUSE_S)
        finally:
            Path(path).touch()

    async def aticks(self, path: str) -> AsyncIterator[int]:
        number = 0
        try:
            while True:
                yield number
                number += 1
                await asyncio.sleep(PAUSE_S)
        finally:
            Path(path).touch()

    def wait(self, path: str) -> None:
        Path(f"{path}.began").touch()
        while not current_call().cancelled():
            time.sleep(PAUSE_S)
        Path(path).touch()

    async def await_news(self, path: str) -> None:
        Path(f"{path}.began").touch()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Path(path).touch()
            raise

    def deaf(self) -> None:
        time.sleep(600)

    @action(on_drain="finish")
    def work(self, span_s: float) -> str:
        time.sleep(span_s)
        return "worked"


class Hungry(DirtyApp):
    """Has a limit on its memory, as a container's would be."""

    def init(self) -> None:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = taken + 256 * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def take(self, size: int) -> int:
        return len(bytearray(size))
