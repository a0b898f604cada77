"""Holds leases, from inside of a worker."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from dirtybus import DirtyApp, stash
from dirtybus.errors import LeaseLost


def _say(path: str, text: object) -> None:
    """Leave a file that is whole as soon as it is there."""
    Path(f"{path}.new").write_text(str(text))
    Path(f"{path}.new").rename(path)


class Leasing(DirtyApp):
    def hold(self, name: str, ttl_s: float, path: str) -> str:
        """Hold a lock until it is lost; leave a file with the worker and the fencing number while it is held."""
        try:
            with stash.lock(name, ttl_s) as lease:
                _say(path, f"{os.getpid()} {lease.fencing}")
                while True:
                    lease.check()
                    time.sleep(0.005)
        except LeaseLost as exc:
            return str(exc)

    async def ahold(self, name: str, ttl_s: float, path: str) -> str:
        try:
            async with stash.aio.lock(name, ttl_s) as lease:
                _say(path, f"{os.getpid()} {lease.fencing}")
                while True:
                    lease.check()
                    await asyncio.sleep(0.005)
        except LeaseLost as exc:
            return str(exc)
