"""The measured app, as gunicorn serves it. Loaded in its workers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gunicorn.dirty import DirtyApp

from benchmarks.subjects import payload

__all__ = ["Bench"]


class Bench(DirtyApp):  # type: ignore[misc]  # gunicorn has no types
    def echo(self, value: Any) -> Any:
        return payload.echo(value)

    def be_busy(self, span_s: float) -> float:
        return payload.be_busy(span_s)

    def count(self, chunks: int) -> Iterator[str]:
        return payload.count(chunks)
