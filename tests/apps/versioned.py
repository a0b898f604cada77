"""An app whose code is a file that a test rewrites: each generation of workers says which text it was loaded from."""

from __future__ import annotations

TEMPLATE = """
import os
import time
from collections.abc import Iterator

from dirtybus import DirtyApp, action


class Versioned(DirtyApp):
    def init(self) -> None:
        {init}

    def version(self) -> str:
        return {version!r}

    def pid(self) -> int:
        return os.getpid()

    def sleep(self, seconds: float) -> str:
        time.sleep(seconds)
        return {version!r}

    def die(self) -> None:
        os._exit(9)

    def ticks(self, count: int, pause: float) -> Iterator[int]:
        for number in range(count):
            time.sleep(pause)
            yield number
"""


def source(version: str, init: str = "pass") -> str:
    """Return the module's text."""
    return TEMPLATE.format(version=version, init=init)
