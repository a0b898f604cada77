"""The two arbiters that clients are run against: ours in a thread, gunicorn's in processes of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig

ROOT = Path(__file__).parent.parent.parent
TOOLBOX = "tests.interop.apps:Toolbox"
NOTEBOOK = "tests.interop.apps:Notebook"


class OurArbiter:
    """An arbiter of ours on a loop of its own, in a thread."""

    def __init__(self, config: DirtyConfig) -> None:
        self.arbiter = Arbiter(config)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(30)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self.arbiter.listen()
            await self.arbiter.start()
            self.arbiter.admit()
        except BaseException as exc:
            self._error = exc
            self._stop.set()
        self._ready.set()
        await self._stop.wait()
        await self.arbiter.close()


@contextlib.contextmanager
def our_arbiter(path: str, **settings: object) -> Iterator[Arbiter]:
    """Serve the test apps at ``path``."""
    given = {"workers": 2, "threads": 4, "timeout": 30, "pythonpath": [str(ROOT)], **settings}
    with OurArbiter(DirtyConfig.of(TOOLBOX, NOTEBOOK, socket=path, **given)) as server:
        yield server.arbiter


@contextlib.contextmanager
def gunicorn_arbiter(path: str) -> Iterator[int]:
    """Serve the test apps at ``path`` with gunicorn."""
    program = [sys.executable, str(Path(__file__).with_name("gunicorn_arbiter.py")), path, TOOLBOX, NOTEBOOK]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "READY\n"
            yield process.pid
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
