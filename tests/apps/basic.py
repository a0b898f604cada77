"""The app most tests call. Loaded in workers only."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from dirtybus import DirtyApp, action, current_call, stash


class Basic(DirtyApp):
    stashes = ("basic", "counts")

    def __init__(self) -> None:
        self.thread: int | None = None
        self.seen = 0

    def init(self) -> None:
        self.thread = threading.get_ident()

    # --- values ---

    def echo(self, value: Any = None, **more: Any) -> Any:
        return (value, more) if more else value

    @action(idempotent=True)
    def echo_twice(self, value: Any) -> Any:
        return value

    def count_up(self) -> int:
        self.seen += 1
        return self.seen

    def pid(self) -> int:
        return os.getpid()

    def same_thread(self) -> bool:
        return threading.get_ident() == self.thread

    def boom(self, text: str = "bad") -> None:
        raise ValueError(text)

    def leave(self) -> None:
        sys.exit(3)

    def unsendable(self) -> Any:
        return {"ok": 1, "lock": threading.Lock()}

    def big(self, size: int) -> bytes:
        return b"x" * size

    # --- time ---

    def sleep(self, span_s: float) -> float:
        time.sleep(span_s)
        return span_s

    def spin(self, span_s: float) -> int:
        until, turns = time.monotonic() + span_s, 0
        while time.monotonic() < until:
            turns += 1
        return turns

    async def asleep(self, span_s: float, value: Any = None) -> Any:
        await asyncio.sleep(span_s)
        return value

    def until_cancelled(self, path: str) -> None:
        """Go on until nobody waits; leave a file that says so."""
        Path(path + ".began").touch()
        while not current_call().cancelled():
            time.sleep(0.005)
        Path(path).touch()
        current_call().check()

    async def until_cancelled_async(self, path: str) -> None:
        Path(path + ".began").touch()
        try:
            await asyncio.Event().wait()
        finally:
            Path(path).touch()

    @action(timeout=0.2)
    def impatient(self) -> None:
        time.sleep(30)

    @action(on_cancel="wait")
    def stubborn(self, path: str, span_s: float) -> None:
        Path(path + ".began").touch()
        time.sleep(span_s)
        Path(path).touch()

    # --- streams ---

    def numbers(self, count: int, fail_at: int | None = None) -> Iterator[int]:
        for number in range(count):
            if number == fail_at:
                raise RuntimeError(f"failed at {number}")
            yield number

    async def anumbers(self, count: int, pause_s: float = 0.0, fail_at: int | None = None) -> AsyncIterator[int]:
        for number in range(count):
            if number == fail_at:
                raise RuntimeError(f"failed at {number}")
            await asyncio.sleep(pause_s)
            yield number

    def endless(self, path: str) -> Iterator[int]:
        number = 0
        try:
            while True:
                Path(path + ".sent").write_text(str(number))
                yield number
                number += 1
        finally:
            Path(path).touch()

    async def aendless(self, path: str) -> AsyncIterator[int]:
        number = 0
        try:
            while True:
                Path(path + ".sent").write_text(str(number))
                yield number
                number += 1
        finally:
            Path(path).touch()

    # --- context, stash, logs ---

    def context(self) -> dict[str, Any]:
        call = current_call()
        return {
            "id": call.id,
            "app": call.app,
            "action": call.action,
            "attempt": call.attempt,
            "time_left_s": call.time_left_s(),
            "cancelled": call.cancelled(),
        }

    async def acontext(self) -> int:
        await asyncio.sleep(0)
        return current_call().id

    def report(self, steps: int) -> str:
        for _ in current_call().track(range(steps), "steps"):
            time.sleep(0.06)
        return "done"

    def put(self, key: Any, value: Any) -> Any:
        stash.put("basic", key, value)
        return stash.get("basic", key)

    async def aput(self, key: Any, value: Any) -> Any:
        await stash.aio.put("basic", key, value)
        return await stash.aio.get("basic", key)

    def missing(self) -> Any:
        return stash.get("basic", "not there", "the default")

    def missing_key(self) -> Any:
        return stash.table("basic")["not there"]

    def say(self) -> None:
        print("printed to stdout")
        print("printed to stderr", file=sys.stderr)
        logging.getLogger("shop").warning("logged %s", "by stdlib")
        current_call().logger.info("logged by the call")
        try:
            raise KeyError("printed")
        except KeyError:
            traceback.print_exc()
        os.write(2, b"written to descriptor 2\n")

    def say_with_loguru(self) -> None:
        from loguru import logger

        logger.warning("logged by loguru {}", {"a": 1})

    # --- death ---

    def die(self, code: int = 7) -> None:
        os._exit(code)

    def segfault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    @action(idempotent=True)
    def die_once(self, path: str) -> int:
        """Kill the worker at the first attempt only."""
        if not Path(path).exists():
            Path(path).touch()
            os._exit(9)
        return current_call().attempt

    @action(idempotent=True)
    def poison(self) -> None:
        os._exit(9)

    # --- environment ---

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def descriptors(self) -> list[str]:
        found = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                continue  # the directory's own descriptor
        return found

    def loaded(self, *names: str) -> list[str]:
        return [name for name in names if name in sys.modules]

    def _private(self) -> None:
        raise AssertionError("nobody may call this")


class Other(DirtyApp):
    workers = 1

    def pid(self) -> int:
        return os.getpid()

    def echo(self, value: Any) -> Any:
        return value


class Duck:
    """An app that is none by birth."""

    def init(self) -> None:
        self.words = ["quack"]

    def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any:
        return [action, *args, *self.words]

    def close(self) -> None:
        self.words = []


class Journal(DirtyApp):
    """Writes down its life in the file that JOURNAL names."""

    def __init__(self) -> None:
        self._note("made")

    def init(self) -> None:
        self._note("init")

    def work(self, span_s: float = 0.0) -> str:
        time.sleep(span_s)
        self._note("worked")
        return "worked"

    def close(self) -> None:
        self._note("close")

    def _note(self, what: str) -> None:
        with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
            journal.write(f"{type(self).__name__} {what}\n")


class Second(Journal):
    pass


def post_fork(arbiter: Any, worker: Any) -> None:
    _hook_note(f"post_fork {arbiter.pid != os.getpid()} {worker.pid == os.getpid()}")


def worker_init(worker: Any) -> None:
    _hook_note(f"worker_init {','.join(worker.app_paths)}")


def _hook_note(text: str) -> None:
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(text + "\n")


class Marking(DirtyApp):
    """Keeps the order in which its calls ran."""

    def __init__(self) -> None:
        self._marks: list[str] = []

    def mark(self, name: str) -> None:
        self._marks.append(name)

    @action(priority=5)
    def mark_soon(self, name: str) -> None:
        self._marks.append(name)

    def marks(self) -> list[str]:
        return self._marks
