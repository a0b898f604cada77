"""The measured app, as gunicorn serves it. Loaded in its workers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gunicorn.dirty import DirtyApp

from benchmarks.subjects import faulty, payload

__all__ = ["Bench"]


class Bench(DirtyApp):  # type: ignore[misc]  # gunicorn has no types
    def echo(self, value: Any) -> Any:
        return payload.echo(value)

    def be_busy(self, span_s: float) -> float:
        return payload.be_busy(span_s)

    def count(self, chunks: int) -> Iterator[str]:
        return payload.count(chunks)

    def work(self, token: str) -> str:
        return faulty.work(token)

    def measure_stash(self, plan: dict[str, Any]) -> list[Any]:
        # not on top: what measures the stash is not what other benchmarks load
        from gunicorn.dirty import stash

        from benchmarks.stash_load import StashPlan, measure_sync

        return measure_sync(stash, StashPlan(**plan))
