"""What the storm calls: actions whose answers follow from their token, and actions that take their worker along.

The plain ones are idempotent and leave no trace. Those that are not write down when they begin and when they end.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import ClassVar

from dirtybus import DirtyApp, action, current_call
from tests.chaos import truth
from tests.chaos.journal import JournalWriter

FAIR = "tests.chaos.apps:Fair"
DEADLY = "tests.chaos.apps:Deadly"
_MIB = 1024 * 1024


class Fair(DirtyApp):
    """Answers. Its code is said to be of the version that the module ``storm_code`` has."""

    def init(self) -> None:
        # written by the storm, where workers look for code first
        self._version: int = importlib.import_module("storm_code").VERSION
        self._journal = JournalWriter(os.environ["STORM_JOURNAL"])

    def version(self) -> int:
        return self._version

    @action(idempotent=True)
    def answer(self, token: str) -> str:
        return truth.answer(token)

    @action(idempotent=True)
    async def answer_async(self, token: str) -> str:
        await asyncio.sleep(truth.pause_s(token))
        return truth.answer(token)

    @action(idempotent=True)
    def blob(self, token: str, padding: bytes) -> bytes:
        assert len(padding) == len(truth.blob(token)), "what came is not what was sent"
        return truth.blob(token)

    @action(idempotent=True)
    def stream(self, token: str) -> Iterator[str]:
        yield from truth.chunks(token)

    @action(idempotent=True)
    async def stream_async(self, token: str) -> AsyncIterator[str]:
        for chunk in truth.chunks(token):
            await asyncio.sleep(0.001)
            yield chunk

    @action(idempotent=True)
    def fail(self, token: str) -> None:
        raise ValueError(truth.answer(token))

    @action(idempotent=True)
    def linger(self, token: str, seconds: float) -> str:
        """Take a while, and leave when nobody waits."""
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            current_call().check()
            time.sleep(0.005)
        return truth.answer(token)

    # --- once only ---

    def work(self, token: str) -> str:
        self._journal.begin(token)
        time.sleep(truth.pause_s(token))
        self._journal.end(token)
        return truth.answer(token)

    async def work_async(self, token: str) -> str:
        self._journal.begin(token)
        await asyncio.sleep(truth.pause_s(token))
        self._journal.end(token)
        return truth.answer(token)

    def work_stream(self, token: str) -> Iterator[str]:
        self._journal.begin(token)
        for chunk in truth.chunks(token):
            time.sleep(0.001)
            yield chunk
        self._journal.end(token)


class Deadly(DirtyApp):
    """Takes its worker along, or does not end. On fewer workers than there are, so that placement matters."""

    workers: ClassVar[int | None] = 2

    def init(self) -> None:
        self._journal = JournalWriter(os.environ["STORM_JOURNAL"])

    def segfault(self, token: str) -> None:
        import ctypes  # a boot need not wait for it

        self._journal.begin(token)
        ctypes.string_at(0)

    def leave(self, token: str) -> None:
        self._journal.begin(token)
        os._exit(7)

    @action(idempotent=True)
    def poison(self, token: str) -> None:
        os._exit(9)

    @action(idempotent=True)
    def leave_once(self, token: str) -> str:
        if current_call().attempt == 1:
            os._exit(8)
        return truth.answer(token)

    @action(idempotent=True)
    def want_too_much(self, token: str) -> int:
        """Ask for more memory than a limit allows; it is refused, and the worker lives on."""
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 36, before[1]))
        try:
            return len(bytearray(1 << 40))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    def hog(self, token: str) -> None:
        """Fill the memory up to a limit, and end as the kernel would end us."""
        self._journal.begin(token)
        with open("/proc/self/statm", encoding="ascii") as statm:
            now_bytes = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now_bytes + 48 * _MIB, resource.getrlimit(resource.RLIMIT_AS)[1]))
        kept = []
        try:
            while True:
                kept.append(bytearray(_MIB))
        except MemoryError:
            os.kill(os.getpid(), signal.SIGKILL)

    def spin(self, token: str) -> None:
        self._journal.begin(token)
        while True:
            pass

    def hold(self, token: str) -> None:
        """Hold the interpreter lock in C code."""
        import ctypes

        self._journal.begin(token)
        ctypes.PyDLL(None).sleep(600)
