"""The measured app, as dirtybus serves it. Loaded in workers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.subjects import faulty, payload
from dirtybus import DirtyApp

__all__ = ["Bench"]


class Bench(DirtyApp):
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
        from benchmarks.stash_load import StashPlan, measure_sync
        from dirtybus import stash

        return measure_sync(stash, StashPlan(**plan))

    async def measure_stash_async(self, plan: dict[str, Any]) -> list[Any]:
        from benchmarks.stash_load import StashPlan, measure_async
        from dirtybus import stash

        return await measure_async(stash.aio, StashPlan(**plan))
