"""Apps that the tests serve with ``dirtybus run``. Imported in workers only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dirtybus import DirtyApp, current_call


class Shop(DirtyApp):
    def echo(self, *args: Any, **kwargs: Any) -> list[Any]:
        return [list(args), kwargs]

    def value(self, kind: str) -> Any:
        return {"text": "plain text", "bytes": b"\x00\xff", "none": None, "mixed": {1: {2}, "b": (3.5, b"x")}}[kind]

    def tokens(self, count: int) -> Iterator[str]:
        for number in range(count):
            yield f"token{number} "

    def numbers(self, count: int) -> Iterator[int]:
        yield from range(count)

    def half(self) -> Iterator[str]:
        yield "before"
        raise ValueError("in the middle")

    def size(self, blob: bytes) -> int:
        return len(blob)

    def fail(self) -> None:
        raise ValueError("no such fish")

    def rest(self, span_s: float) -> float:
        time.sleep(span_s)
        return span_s

    def cook(self, steps: int) -> str:
        for step in range(steps):
            current_call().progress(step + 1, steps, "cooking")
        return "done"


class Wide(DirtyApp):
    """Cannot do with fewer workers."""

    workers = 2

    def pid(self) -> int:
        return os.getpid()


class Broken(DirtyApp):
    def init(self) -> None:
        raise RuntimeError("the model is missing")


class Hanging(DirtyApp):
    def init(self) -> None:
        time.sleep(600)


class Marked(DirtyApp):
    """Leaves a file behind when it is closed, and so shows that it was."""

    def init(self) -> None:
        self._path = Path(os.environ["MARK_PATH"])

    def close(self) -> None:
        self._path.write_text("closed")
