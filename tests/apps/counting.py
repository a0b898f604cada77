"""An app whose workers all count in the same tables."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from dirtybus import DirtyApp, stash

TWO = struct.Struct("=QQ")


class Counting(DirtyApp):
    def count(self, key: str, times: int) -> int:
        for _ in range(times):
            stash.incr("counts", key)
        return os.getpid()

    def swap(self, key: str, times: int) -> int:
        stash.setdefault("counts", key, 0)
        for _ in range(times):
            found = stash.get("counts", key)
            while not stash.cas("counts", key, found, found + 1):
                found = stash.get("counts", key)
        return os.getpid()

    def transact(self, key: str, times: int) -> int:
        def add(tx: Any) -> None:
            tx.put("counts", key, tx.get("counts", key, 0) + 1)

        for _ in range(times):
            stash.transact(add)
        return os.getpid()

    def count_until_killed(self, key: str, directory: str) -> None:
        """Count for ever; the file of this process holds how many were sent, and how many were answered."""
        sent = answered = 0
        with (Path(directory) / str(os.getpid())).open("wb", buffering=0) as file:
            while True:
                sent += 1
                os.pwrite(file.fileno(), TWO.pack(sent, answered), 0)
                stash.incr("counts", key)
                answered += 1
                os.pwrite(file.fileno(), TWO.pack(sent, answered), 0)
