"""What is left of the capacity when three times as much is asked: dirtybus and gunicorn.dirty, in the same run.

Run: python -m benchmarks.overload [--json FILE]. It takes half a minute. Every call takes a worker for 10 ms and has a
deadline of 300 ms; an answer within it is a good one. First the capacity is measured, by callers that call again as
soon as they are answered; then calls come at three times that rate, whatever becomes of those before them.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.rows import percentile
from benchmarks.subjects.owning import OwnerProgram
from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyError

APP = "benchmarks.subjects.dirtybus_app:Bench"
OWNER = "benchmarks.subjects.dirtybus_owner"
WORKERS = 2
BUSY_S = 0.01
DEADLINE_S = 0.3
TIMES = 3
CAPACITY_SPAN_S = 3.0
LOAD_SPAN_S = 6.0
#: what a contestant that answers nothing may take beyond the load
_PATIENCE_S = 5.0


class Subject(Protocol):
    """One that is overloaded. A call raises when it gets no answer."""

    async def open(self, path: str) -> None: ...
    async def call(self) -> None: ...
    async def close(self) -> None: ...


class Dirtybus:
    """A short queue that refuses, and lets nobody wait longer than is of use."""

    async def open(self, path: str) -> None:
        settings = ("max_queued=20", "queue_full=refuse", "queue_timeout=200ms")
        self._owner = await asyncio.to_thread(OwnerProgram, OWNER, path, WORKERS, *settings)
        self._client = DirtyClient(path)
        await self.call()

    async def call(self) -> None:
        await self._client.request_async(APP, "be_busy", (BUSY_S,), timeout_s=DEADLINE_S)

    async def close(self) -> None:
        await self._client.close_async()
        await asyncio.to_thread(self._owner.close)


class Gunicorn:
    """Default settings; it has no bound and no deadline of its own. A client serves one call at a time."""

    async def open(self, path: str) -> None:
        from gunicorn.dirty import DirtyClient as TheirClient

        from benchmarks.subjects import gunicorn_client

        self._app = gunicorn_client.APP
        self._make = partial(TheirClient, path, timeout=DEADLINE_S)
        self._idle: list[Any] = []
        self._clients = await asyncio.to_thread(gunicorn_client._Clients, path, WORKERS)  # noqa: SLF001

    async def call(self) -> None:
        client = self._idle.pop() if self._idle else self._make()
        try:
            async with asyncio.timeout(DEADLINE_S * 2):
                await client.execute_async(self._app, "be_busy", BUSY_S)
        except BaseException:
            await client.close_async()
            raise
        self._idle.append(client)

    async def close(self) -> None:
        for client in self._idle:
            await client.close_async()
        await self._clients.close_async()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one contestant made of the load. ``goodput`` is good answers a second, as a part of ``capacity_per_s``."""

    contestant: str
    capacity_per_s: float
    offered_per_s: float
    good_per_s: float
    goodput: float
    p99_ms: float | None
    without_answer: dict[str, int]


class Tally:
    """Makes calls and notes what becomes of them."""

    def __init__(self, call: Callable[[], Awaitable[None]]) -> None:
        self._call = call
        self.good_s: list[float] = []
        self.others: dict[str, int] = {}

    async def once(self) -> None:
        begun_at = time.perf_counter()
        try:
            await self._call()
        except Exception as exc:  # whatever it is, it is no answer
            self._note(type(exc).__name__)
            return
        spent_s = time.perf_counter() - begun_at
        if spent_s <= DEADLINE_S:
            self.good_s.append(spent_s)
        else:
            self._note("late")

    def _note(self, what: str) -> None:
        self.others[what] = self.others.get(what, 0) + 1


async def capacity(subject: Subject) -> float:
    """Return how many calls a second are answered when so many callers ask that every worker is always busy."""
    tally, ends_at = Tally(subject.call), time.perf_counter() + CAPACITY_SPAN_S

    async def go_on() -> None:
        while time.perf_counter() < ends_at:
            await tally.once()

    await asyncio.gather(*(go_on() for _ in range(2 * WORKERS)))
    return len(tally.good_s) / CAPACITY_SPAN_S


async def flood(subject: Subject, per_s: float) -> tuple[Tally, float]:
    """Begin so many calls a second for a while, and return what became of them and how many were begun a second."""
    tally, begun, begun_at = Tally(subject.call), 0, time.perf_counter()
    tasks: set[asyncio.Task[None]] = set()
    while (now := time.perf_counter()) < begun_at + LOAD_SPAN_S:
        for _ in range(int((now - begun_at) * per_s) - begun):
            begun += 1
            task = asyncio.create_task(tally.once())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(1 / per_s)
    if tasks:
        await asyncio.wait(tasks, timeout=_PATIENCE_S)
    for task in tasks:
        task.cancel()
    return tally, begun / LOAD_SPAN_S


async def measure(name: str, subject: Subject) -> Result:
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        await subject.open(f"{directory}/s")
        stack.push_async_callback(subject.close)
        able_per_s = await capacity(subject)
        tally, offered_per_s = await flood(subject, TIMES * able_per_s)
        good_per_s = len(tally.good_s) / LOAD_SPAN_S
        return Result(
            contestant=name,
            capacity_per_s=round(able_per_s, 1),
            offered_per_s=round(offered_per_s, 1),
            good_per_s=round(good_per_s, 1),
            goodput=round(good_per_s / able_per_s, 3) if able_per_s else 0.0,
            p99_ms=round(percentile(tally.good_s, 99) * 1000, 1) if tally.good_s else None,
            without_answer=tally.others,
        )


def shown(result: Result) -> str:
    p99 = "-" if result.p99_ms is None else f"{result.p99_ms:.0f} ms"
    others = ", ".join(f"{count} {what}" for what, count in sorted(result.without_answer.items())) or "none"
    return (
        f"{result.contestant:15}  capacity {result.capacity_per_s:5.0f}/s  offered {result.offered_per_s:5.0f}/s  "
        f"good {result.good_per_s:5.0f}/s = {result.goodput:4.0%}  p99 {p99:>7}  without answer: {others}"
    )


async def run() -> list[Result]:
    contestants: dict[str, Callable[[], Subject]] = {"dirtybus": Dirtybus}
    if importlib.util.find_spec("gunicorn") is None:
        print("gunicorn.dirty is left out: gunicorn is not installed", file=sys.stderr)
    else:
        contestants["gunicorn.dirty"] = Gunicorn
    results = []
    for name, make in contestants.items():
        try:
            result = await measure(name, make())
        except (DirtyError, RuntimeError, OSError) as exc:
            print(f"{name} is left out: {exc}", file=sys.stderr)
            continue
        print(shown(result), flush=True)
        results.append(result)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask three times as much as can be done, and count good answers.")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results there as well")
    options = parser.parse_args()
    results = asyncio.run(run())
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
