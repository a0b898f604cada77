"""What every contestant is asked: to give back a small mapping, to count, to be busy. One text for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["REQUEST", "be_busy", "count", "echo"]

REQUEST: Final = {"prompt": "hello world", "top_k": 40, "temperature": 0.7, "stop": None, "stream": True}


def echo(value: Any) -> Any:
    """Give ``value`` back."""
    return value


def be_busy(span_s: float) -> float:
    """Take a worker for so long, as a device or a server that it waits for would."""
    time.sleep(span_s)
    return span_s


def count(chunks: int) -> Iterator[str]:
    """Yield so many short texts."""
    for number in range(chunks):
        yield f"token {number}"
