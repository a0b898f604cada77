"""The apps that the interop tests serve, under our arbiter and under gunicorn's: so only what both know."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any


class Toolbox:
    """One of each kind of action. Duck-typed: it needs neither base class."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.seen = 0

    def init(self) -> None:
        self.seen = 0

    def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self, action, None)
        if method is None or action.startswith("_"):
            raise ValueError(f"Unknown action: {action}")
        return method(*args, **kwargs)

    def close(self) -> None:
        self.seen = -1

    def echo(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"args": list(args), "kwargs": kwargs}

    def give(self, value: Any) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def count(self) -> int:
        self.seen += 1
        return self.seen

    def add(self, a: int, b: int = 0) -> int:
        return a + b

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def die(self) -> None:
        os._exit(3)

    def nap(self, seconds: float, then: Any = "rested") -> Any:
        time.sleep(seconds)
        return then

    def blob(self, size: int) -> bytes:
        return b"x" * size

    def spam(self, n: int, size: int) -> Iterator[bytes]:
        for _ in range(n):
            yield b"x" * size

    def give_set(self) -> dict[str, Any]:
        return {"members": [{1, 2}]}

    def yield_set(self) -> Iterator[Any]:
        yield "fine"
        yield {1, 2}
        yield "never sent"

    def tokens(self, n: int) -> Iterator[str]:
        for i in range(n):
            yield f"token {i}"

    async def tokens_async(self, n: int) -> AsyncIterator[str]:
        for i in range(n):
            yield f"token {i}"

    def tokens_then_fail(self, n: int) -> Iterator[str]:
        yield from self.tokens(n)
        raise RuntimeError("the stream broke")

    def drip(self, n: int, gap_s: float) -> Iterator[int]:
        for i in range(n):
            time.sleep(gap_s)
            yield i

    def track_stream(self, path: str) -> Iterator[int]:
        """Yield for ever; write to ``path`` when the stream is closed."""
        i = 0
        try:
            while True:
                yield i
                i += 1
                time.sleep(0.005)
        finally:
            with open(path, "w") as note:
                note.write(f"closed after {i}")


class Notebook:
    """The stash patterns of gunicorn's documentation: sessions, a cache, counters and flags."""

    stashes = ("sessions", "counters")

    def init(self) -> None:
        stash = _stash()
        if not stash.exists("counters", "requests"):
            stash.put("counters", "requests", 0)

    def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, action)(*args, **kwargs)

    def close(self) -> None:
        """Nothing was opened."""

    def login(self, user_id: int, user: dict[str, Any]) -> dict[str, str]:
        stash = _stash()
        stash.put("sessions", f"user:{user_id}", {"data": user})
        stash.put("counters", "requests", stash.get("counters", "requests", 0) + 1)
        return {"status": "ok"}

    def session(self, user_id: int) -> Any:
        return _stash().get("sessions", f"user:{user_id}")

    def expensive(self, key: str) -> Any:
        stash = _stash()
        cached = stash.get("cache", key)
        if cached is not None:
            return {**cached, "cached": True}
        result = {"key": key, "pid": os.getpid()}
        stash.put("cache", key, result)
        return {**result, "cached": False}

    def is_on(self, flag: str) -> Any:
        return _stash().get("flags", flag, False)


def _stash() -> Any:
    """Return the stash module that fits the arbiter we run under."""
    # gunicorn's own would fail on every missing key
    from dirtybus.compat.gunicorn import stash

    return stash
