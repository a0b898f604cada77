"""Writes what happens, and when, into a file that several processes share. The clock is the machine's: one for all."""

from __future__ import annotations

import os
import time

from dirtybus import DirtyApp


def trace(what: str) -> None:
    """Add a line: the monotonic moment, and what happened."""
    with open(os.environ["TRACE"], "a", encoding="utf-8") as file:
        file.write(f"{time.monotonic():.6f} {what}\n")


class Traced(DirtyApp):
    def rest(self, span_s: float) -> float:
        time.sleep(span_s)
        trace("worker: call answered")
        return span_s

    def echo(self, value: object) -> object:
        return value

    def close(self) -> None:
        trace("worker: closed")
