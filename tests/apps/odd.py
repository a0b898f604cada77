"""Apps that fail, end and behave in ways that a worker must survive."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from fractions import Fraction
from typing import Any

from dirtybus import DirtyApp, current_call, stash
from dirtybus.errors import DirtyAppError, DirtyError

APP = "tests.apps.odd:Odd"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Odd(DirtyApp):
    # --- errors ---

    def half_a_pair(self) -> None:
        raise FileNotFoundError("caf\udce9.txt")

    def unspeakable(self) -> None:
        raise Unspeakable

    def long_winded(self, chars: int) -> None:
        raise ValueError("x" * chars)

    def carrying(self) -> None:
        error = DirtyAppError("with a lock in it", app_path=APP)
        error.details["lock"] = threading.Lock()
        raise error

    def leaving(self) -> None:
        sys.exit(3)

    def interrupted(self) -> None:
        raise KeyboardInterrupt

    async def given_up(self) -> None:
        raise asyncio.CancelledError

    def odd_result(self, name: str) -> Any:
        return {"big int": 2**200, "too large": bytes(1 << 21), "lock": threading.Lock()}[name]

    # --- the call's context ---

    def call_of_a_thread(self) -> str:
        found: list[str] = []

        def look() -> None:
            try:
                current_call()
            except DirtyError as exc:
                found.append(str(exc))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return found[0]

    def report_often(self, times: int) -> int:
        for number in range(times):
            current_call().progress(number, times * 2)
        return times

    def report_oddly(self) -> None:
        done: Any = Fraction(1, 2)
        current_call().progress(done, 1, "half")

    def report_too_late(self) -> None:
        call = current_call()

        def later() -> None:
            time.sleep(0.1)
            call.progress(1, 1)
            stash.put("odd", "reported", True)

        threading.Thread(target=later).start()

    # --- questions ---

    def leave_a_question_open(self) -> str:
        async def ask() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await stash.aio.get("odd", "anything", None)

        for _ in range(20):
            asyncio.run(ask())
        return str(stash.get("odd", "anything", "still answered"))

    # --- processes ---

    def stop_a_program(self) -> int:
        program = subprocess.Popen(["sleep", "60"])
        program.terminate()
        return program.wait(10)

    def stop_a_fork(self) -> int:
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def leave_a_grandchild(self) -> int:
        """Leave a process that holds all of our descriptors, the link's too."""
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        return pid

    def hang_up(self) -> None:
        """Close the link for good, and then hold the interpreter lock in C code."""
        for fd in range(3, 64):
            with suppress(OSError), socket.socket(fileno=os.dup(fd)) as link:
                link.shutdown(socket.SHUT_WR)
        re.match(r"(a+)+$", "a" * 64 + "b")

    def signal_self(self, number: int) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    def pid(self) -> int:
        return os.getpid()

    def echo(self, value: Any = None) -> Any:
        return value

    # --- threads ---

    def meet(self, parties: int) -> int:
        """Return when so many calls are in here at once."""
        with _door:
            _inside.append(current_call().id)
            _door.notify_all()
            assert _door.wait_for(lambda: len(set(_inside)) >= parties, timeout=20)
        return current_call().id


_door = threading.Condition()
_inside: list[int] = []


class Ending(DirtyApp):
    """Writes down when it is closed; its `close` fails."""

    async def init(self) -> None:
        await asyncio.sleep(0)
        self.ready = True

    def is_ready(self) -> bool:
        return self.ready

    async def close(self) -> None:
        await asyncio.sleep(0)
        _note("Ending closed")
        raise RuntimeError("cannot close")


class Leaving(DirtyApp):
    def close(self) -> None:
        _note("Leaving closed")
        sys.exit(3)


class Last(DirtyApp):
    def echo(self, value: Any = None) -> Any:
        return value

    def close(self) -> None:
        _note("Last closed")
        print("printed in close")


def _note(what: str) -> None:
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(what + "\n")
