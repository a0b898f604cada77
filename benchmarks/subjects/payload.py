"""What every contestant is asked: to give back a small mapping, and to count. One text for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["REQUEST", "count", "echo"]

REQUEST: Final = {"prompt": "hello world", "top_k": 40, "temperature": 0.7, "stop": None, "stream": True}


def echo(value: Any) -> Any:
    """Give ``value`` back."""
    return value


def count(chunks: int) -> Iterator[str]:
    """Yield so many short texts."""
    for number in range(chunks):
        yield f"token {number}"
