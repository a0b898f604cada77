"""Contestants made for tests: one that answers, one that fails, one that hangs with a child of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

#: the environment variable that names it
PID_FILE = "DIRTYBUS_BENCH_TEST_PID_FILE"


class Answering:
    is_async: ClassVar[bool] = False

    def open(self, socket_path: str, workers: int) -> None:
        self.opened = (socket_path, workers)

    def caller(self) -> type[int]:
        return int

    def stream(self, chunks: int) -> Iterator[int]:
        return iter(range(chunks))

    def close(self) -> None:
        del self.opened


class AnsweringAsync(Answering):
    is_async: ClassVar[bool] = True

    async def open(self, socket_path: str, workers: int) -> None:  # type: ignore[override]
        self.opened = (socket_path, workers)

    def caller(self) -> object:  # type: ignore[override]
        async def call() -> int:
            return 0

        return call

    def stream(self, chunks: int) -> None:  # type: ignore[override]
        return None

    async def close(self) -> None:  # type: ignore[override]
        del self.opened


class Failing(Answering):
    def caller(self) -> type[int]:
        raise OSError("no callers today")


class Hanging(Answering):
    """Leaves the pid of its child in the file that the test names."""

    def open(self, socket_path: str, workers: int) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        Path(os.environ[PID_FILE]).write_text(str(child.pid), encoding="utf-8")
        time.sleep(60)
