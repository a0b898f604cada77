"""One contestant, measured once, in this fresh process: ``python -m benchmarks.visit ORDER``. Knows no other one."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.plan import Bounds

__all__ = ["FOUND", "Order", "main"]

#: the file in the order's place that holds the findings in the end
FOUND = "found.json"
_WARM_UP = Bounds(calls=200, span_s=0.3)
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to measure. ``began_at`` is when this process was asked for, on the system's monotonic clock."""

    subject: str
    place: str
    workers: int
    suites: Sequence[str]
    concurrencies: Sequence[int]
    chunks: int
    bounds: Bounds
    limit_s: float
    began_at: float = field(default_factory=time.monotonic)

    def to_text(self) -> str:
        """Return what `from_text` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Order:
        """Read an order."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "bounds": Bounds(**fields["bounds"])})

    @property
    def socket_path(self) -> str:
        """A free place for a socket, in a directory of ours alone."""
        return str(Path(self.place) / "socket")


class _Notes:
    """The findings of this visit."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._found: list[dict[str, Any]] = []

    def wants(self, suite: str) -> bool:
        return suite in self.order.suites

    def add(self, suite: str, metric: str, value: float, cpu_us: float | None = None, **params: int) -> None:
        finding = {"suite": suite, "metric": metric, "value": value, "cpu_us": cpu_us}
        self._found.append({**finding, "params": {"workers": self.order.workers, **params}})

    def add_start(self) -> None:
        """Note that the first call has just been answered."""
        if self.wants("start"):
            self.add("start", "ready_ms", (time.monotonic() - self.order.began_at) * 1000)

    def add_memory(self) -> None:
        """Note what a worker takes that has answered one call."""
        from benchmarks.meter import worker_memory_mib  # after `add_start`: what measures is not what is measured

        if self.wants("memory") and (memory := worker_memory_mib()) is not None:
            self.add("memory", "pss_mib", memory[0])
            self.add("memory", "rss_mib", memory[1])

    def add_burst(self, burst: Any, concurrency: int) -> None:
        for metric in ("p50_us", "p99_us", "calls_per_s"):
            self.add("calls", metric, getattr(burst, metric), burst.cpu_us, concurrency=concurrency)

    def add_poured(self, poured: Any) -> None:
        self.add("stream", "chunks_per_s", poured.chunks_per_s, poured.cpu_us)
        self.add("stream", "first_chunk_us", poured.first_chunk_us)

    def write(self) -> None:
        (Path(self.order.place) / FOUND).write_text(json.dumps(self._found), encoding="utf-8")


async def _visit_async(subject: Any, notes: _Notes) -> None:
    order = notes.order
    await subject.open(order.socket_path, order.workers)
    try:
        notes.add_start()
        await asyncio.sleep(_PAUSE_S)  # what its processes still do after their first answer is not idleness
        notes.add_memory()
        await _load_async(subject, notes)
    finally:
        await subject.close()


async def _load_async(subject: Any, notes: _Notes) -> None:
    from benchmarks.load import call_async, read_async

    order = notes.order
    if notes.wants("calls"):
        await call_async([subject.caller()], _WARM_UP)
        for concurrency in order.concurrencies:
            calls = [subject.caller() for _ in range(concurrency)]
            notes.add_burst(await call_async(calls, order.bounds), concurrency)
    if notes.wants("stream") and (stream := subject.stream(order.chunks)) is not None:
        notes.add_poured(await read_async(stream, order.chunks))


def _visit_sync(subject: Any, notes: _Notes) -> None:
    order = notes.order
    subject.open(order.socket_path, order.workers)
    try:
        notes.add_start()
        time.sleep(_PAUSE_S)
        notes.add_memory()
        _load_sync(subject, notes)
    finally:
        subject.close()


def _load_sync(subject: Any, notes: _Notes) -> None:
    from benchmarks.load import call_sync, read_sync

    order = notes.order
    if notes.wants("calls"):
        call_sync([subject.caller()], _WARM_UP)
        for concurrency in order.concurrencies:
            calls = [subject.caller() for _ in range(concurrency)]
            notes.add_burst(call_sync(calls, order.bounds), concurrency)
    if notes.wants("stream") and (stream := subject.stream(order.chunks)) is not None:
        notes.add_poured(read_sync(stream, order.chunks))


def main(argv: Sequence[str]) -> int:
    """Carry out the order in ``argv[0]`` and leave the findings in its place."""
    order = Order.from_text(argv[0])
    # should whoever started us be gone by then: nothing of this outlives its limit
    signal.alarm(int(order.limit_s) + 5)
    module, _, name = order.subject.partition(":")
    subject = getattr(importlib.import_module(module), name)()
    notes = _Notes(order)
    if subject.is_async:
        asyncio.run(_visit_async(subject, notes))
    else:
        _visit_sync(subject, notes)
    notes.write()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())  # so that its children find these modules too
    sys.exit(main(sys.argv[1:]))
