"""An app that takes memory and keeps it. Loaded in workers only."""

from __future__ import annotations

import os
import time

from dirtybus import DirtyApp, action


class Greedy(DirtyApp):
    def __init__(self) -> None:
        self.held: list[bytearray] = []

    def take(self, megabytes: int, span_s: float = 0.0) -> int:
        block = bytearray(megabytes * 1_000_000)
        block[::4096] = b"x" * len(block[::4096])  # pages that are never written are none
        self.held.append(block)
        time.sleep(span_s)
        return os.getpid()

    @action(idempotent=True)
    def take_again(self, megabytes: int, span_s: float) -> int:
        return self.take(megabytes, span_s)
