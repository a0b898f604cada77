"""Actions that do not end, each in its own way."""

from __future__ import annotations

import re
import time

from dirtybus import DirtyApp


class Stuck(DirtyApp):
    def in_python(self) -> None:
        while True:
            pass

    def asleep(self) -> None:
        time.sleep(600)

    def in_c(self) -> None:
        """Hold the interpreter lock in C code for far longer than any test lasts."""
        re.match(r"(a+)+$", "a" * 64 + "b")
