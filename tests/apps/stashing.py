"""Works on the stash, from inside of a worker."""

from __future__ import annotations

import os

from dirtybus import DirtyApp, stash


class Stashing(DirtyApp):
    def put_large(self, table: str, key: str, size: int) -> int:
        stash.put(table, key, bytes(size - 1) + bytes([size % 251]))
        return os.getpid()

    def look_at_large(self, table: str, key: str) -> tuple[int, int]:
        return os.getpid(), stash.get(table, key)[-1]
