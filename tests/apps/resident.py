"""An app for tests of whole owners: it rests, says who it is, and writes to a log file of its own."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Iterator

from dirtybus import DirtyApp


class Resident(DirtyApp):
    def init(self) -> None:
        if path := os.environ.get("RESIDENT_LOG"):
            logging.getLogger("resident").addHandler(logging.FileHandler(path))

    def rest(self, span_s: float) -> float:
        time.sleep(span_s)
        return span_s

    def echo(self, value: object = None) -> object:
        return value

    def pid(self) -> int:
        return os.getpid()

    def note(self, text: str) -> None:
        logging.getLogger("resident").error(text)

    def ticks(self, count: int, pause_s: float) -> Iterator[int]:
        for number in range(count):
            time.sleep(pause_s)
            yield number

    def orphan(self, count: int) -> None:
        """Leave so many processes behind, which end soon after."""
        for _ in range(count):
            subprocess.run(["/bin/sh", "-c", "sleep 0.2 & exit 0"], check=True)
