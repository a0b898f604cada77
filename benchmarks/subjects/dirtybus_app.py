"""The measured app, as dirtybus serves it. Loaded in workers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.subjects import payload
from dirtybus import DirtyApp

__all__ = ["Bench"]


class Bench(DirtyApp):
    def echo(self, value: Any) -> Any:
        return payload.echo(value)

    def be_busy(self, span_s: float) -> float:
        return payload.be_busy(span_s)

    def count(self, chunks: int) -> Iterator[str]:
        return payload.count(chunks)
