"""A load: so many callers at the same time, each calling again as soon as it is answered. Bounded in calls and time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from benchmarks.meter import cpu_s
from benchmarks.plan import Bounds
from benchmarks.rows import percentile

__all__ = ["Burst", "Poured", "call_async", "call_sync", "read_async", "read_sync"]

Call = Callable[[], object]
CallAsync = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What a load of calls met."""

    latencies_us: Sequence[float]
    span_s: float
    cpu_s: float

    @property
    def p50_us(self) -> float:
        return percentile(self.latencies_us, 50)

    @property
    def p99_us(self) -> float:
        return percentile(self.latencies_us, 99)

    @property
    def calls_per_s(self) -> float:
        return len(self.latencies_us) / self.span_s

    @property
    def cpu_us(self) -> float:
        """CPU time for each call."""
        return self.cpu_s * 1e6 / len(self.latencies_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Poured:
    """What reading one stream to its end met."""

    chunks: int
    first_chunk_us: float
    span_s: float
    cpu_s: float

    @property
    def chunks_per_s(self) -> float:
        return self.chunks / self.span_s

    @property
    def cpu_us(self) -> float:
        """CPU time for each chunk."""
        return self.cpu_s * 1e6 / self.chunks


class _Book:
    """Who may call again, and how long each call took."""

    def __init__(self, bounds: Bounds) -> None:
        gc.collect()  # what came before is not the load's to clean up
        self.latencies_us: list[float] = []
        self._left = bounds.calls
        self._cpu_s = cpu_s()
        self._began_ns = perf_counter_ns()
        self._ends_ns = self._began_ns + int(bounds.span_s * 1e9)

    def take(self) -> int:
        """Return the moment at which a call begins; 0 when there are to be no more."""
        now_ns = perf_counter_ns()
        self._left -= 1
        return now_ns if self._left >= 0 and now_ns < self._ends_ns else 0

    def note(self, began_ns: int) -> None:
        self.latencies_us.append((perf_counter_ns() - began_ns) / 1000)

    def close(self) -> Burst:
        span_s = (perf_counter_ns() - self._began_ns) / 1e9
        return Burst(latencies_us=self.latencies_us, span_s=span_s, cpu_s=cpu_s() - self._cpu_s)


async def call_async(calls: Sequence[CallAsync], bounds: Bounds) -> Burst:
    """Run a load with one task for each of ``calls``."""
    book = _Book(bounds)

    async def again_and_again(call: CallAsync) -> None:
        while began_ns := book.take():
            await call()
            book.note(began_ns)

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(again_and_again(call))
    return book.close()


def call_sync(calls: Sequence[Call], bounds: Bounds) -> Burst:
    """Run a load with one thread for each of ``calls``; a lone one runs in this thread.

    Raises:
        Exception: what the first call that failed raised, when all threads have ended.
    """
    book = _Book(bounds)
    failures: list[Exception] = []

    def again_and_again(call: Call) -> None:
        try:
            while not failures and (began_ns := book.take()):
                call()
                book.note(began_ns)
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=again_and_again, args=(call,)) for call in calls[1:]]
    for thread in threads:
        thread.start()
    again_and_again(calls[0])
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return book.close()


class _Glass:
    """Counts the chunks of one stream."""

    def __init__(self) -> None:
        gc.collect()
        self._chunks = 0
        self._first_us = 0.0
        self._cpu_s = cpu_s()
        self._began_ns = perf_counter_ns()

    def note(self) -> None:
        if not self._chunks:
            self._first_us = (perf_counter_ns() - self._began_ns) / 1000
        self._chunks += 1

    def close(self, expected: int) -> Poured:
        span_s = (perf_counter_ns() - self._began_ns) / 1e9
        if self._chunks != expected:
            raise AssertionError(f"a stream of {expected} chunks gave {self._chunks}")
        return Poured(chunks=self._chunks, first_chunk_us=self._first_us, span_s=span_s, cpu_s=cpu_s() - self._cpu_s)


async def read_async(stream: AsyncIterator[object], expected: int) -> Poured:
    """Read one stream to its end. Raises AssertionError when it gave another number of chunks than ``expected``."""
    glass = _Glass()
    async for _ in stream:
        glass.note()
    return glass.close(expected)


def read_sync(stream: Iterator[object], expected: int) -> Poured:
    """As `read_async`, in this thread."""
    glass = _Glass()
    for _ in stream:
        glass.note()
    return glass.close(expected)
