"""Actions that do not end, each in its own way."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dirtybus import DirtyApp, action, current_call


class Stuck(DirtyApp):
    def in_python(self) -> None:
        while True:
            pass

    def asleep(self) -> None:
        time.sleep(600)

    def in_c(self) -> None:
        """Hold the interpreter lock in C code for far longer than any test lasts."""
        re.match(r"(a+)+$", "a" * 64 + "b")

    def stopped(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    @action(idempotent=True)
    def stopped_once(self, path: str) -> int:
        """Stop the worker at the first attempt only."""
        if not Path(path).exists():
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return current_call().attempt

    @action(idempotent=True)
    def stopped_each_time(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def without_pulse(self, chunks: int) -> Iterator[int]:
        """Break the line on which the owner feels the worker's pulse; stream for a while, then fall silent."""
        with socket.socket(fileno=os.dup(int(sys.argv[3]))) as line:
            line.shutdown(socket.SHUT_RDWR)
        for number in range(chunks):
            yield number
            time.sleep(0.05)
        time.sleep(600)

    def busy(self, span_s: float) -> str:
        """Compute in Python, which lets other threads run now and then."""
        until = time.monotonic() + span_s
        while time.monotonic() < until:
            pass
        return "done"
