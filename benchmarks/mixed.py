"""The tail of short calls among long ones: dirtybus and gunicorn.dirty, in the same run.

Run: python -m benchmarks.mixed [--json FILE]. It takes two minutes. Two workers get nine calls of 5 ms for each one of
200 ms, at moments that a seed draws, for 70 % of what the workers can do; nobody waits with a call for the answer to
another (open loop). The contestants take turns, in several rounds with the same arrivals for all.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from benchmarks.rows import percentile
from benchmarks.subjects.owning import OwnerProgram
from dirtybus.client import DirtyClient

APP = "benchmarks.subjects.dirtybus_app:Bench"
OWNER = "benchmarks.subjects.dirtybus_owner"
WORKERS = 2
SHORT_S, LONG_S, SHARE_LONG = 0.005, 0.2, 0.1
LOAD = 0.7
CALLS = 900
ROUNDS = 3
_PATIENCE_S = 60.0


class Subject(Protocol):
    """One that is called. A call raises when it gets no answer."""

    async def open(self, path: str) -> None: ...
    async def call(self, span_s: float) -> None: ...
    async def close(self) -> None: ...


class Dirtybus:
    """One queue for all workers; with ``is_short_first`` the callers say which calls are short."""

    def __init__(self, *, is_short_first: bool = False) -> None:
        self._is_short_first = is_short_first

    async def open(self, path: str) -> None:
        self._owner = await asyncio.to_thread(OwnerProgram, OWNER, path, WORKERS)
        self._client = DirtyClient(path)
        await self.call(SHORT_S)

    async def call(self, span_s: float) -> None:
        priority = int(self._is_short_first and span_s == SHORT_S)
        await self._client.request_async(APP, "be_busy", (span_s,), priority=priority)

    async def close(self) -> None:
        await self._client.close_async()
        await asyncio.to_thread(self._owner.close)


class Gunicorn:
    """Default settings. A client serves one call at a time, so each call in flight has one."""

    async def open(self, path: str) -> None:
        from gunicorn.dirty import DirtyClient as TheirClient

        from benchmarks.subjects import gunicorn_client

        self._app = gunicorn_client.APP
        self._make: Callable[[], Any] = lambda: TheirClient(path, timeout=_PATIENCE_S)
        self._idle: list[Any] = []
        self._clients = await asyncio.to_thread(gunicorn_client._Clients, path, WORKERS)  # noqa: SLF001

    async def call(self, span_s: float) -> None:
        client = self._idle.pop() if self._idle else self._make()
        try:
            await client.execute_async(self._app, "be_busy", span_s)
        except BaseException:
            await client.close_async()
            raise
        self._idle.append(client)

    async def close(self) -> None:
        for client in self._idle:
            await client.close_async()
        await self._clients.close_async()


def arrivals(seed: int) -> list[tuple[float, float]]:
    """Return when each call is made and how long it takes, in seconds."""
    numbers = random.Random(seed)
    mean_s = SHORT_S * (1 - SHARE_LONG) + LONG_S * SHARE_LONG
    at, drawn = 0.0, []
    for _ in range(CALLS):
        at += numbers.expovariate(LOAD * WORKERS / mean_s)
        drawn.append((at, LONG_S if numbers.random() < SHARE_LONG else SHORT_S))
    return drawn


async def visit(subject: Subject, seed: int) -> list[float]:
    """Make the calls of one round; return the seconds from the moment of each short call to its answer."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        await subject.open(f"{directory}/s")
        stack.push_async_callback(subject.close)
        took_s: list[float] = []
        began_at = time.perf_counter()

        async def call(at: float, span_s: float) -> None:
            await subject.call(span_s)
            if span_s == SHORT_S:
                took_s.append(time.perf_counter() - began_at - at)

        tasks: list[Awaitable[None]] = []
        for at, span_s in arrivals(seed):
            await asyncio.sleep(max(0.0, began_at + at - time.perf_counter()))
            tasks.append(asyncio.create_task(call(at, span_s)))
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*tasks)
        return took_s


async def run() -> dict[str, list[float]]:
    """Return the 99th percentile of each contestant's rounds, in milliseconds."""
    contestants: dict[str, Callable[[], Subject]] = {
        "dirtybus": Dirtybus,
        "dirtybus, short first": lambda: Dirtybus(is_short_first=True),
    }
    if importlib.util.find_spec("gunicorn") is None:
        print("gunicorn.dirty is left out: gunicorn is not installed", file=sys.stderr)
    else:
        contestants["gunicorn.dirty"] = Gunicorn
    p99_ms: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(ROUNDS):
        for name, make in contestants.items():
            took_s = await visit(make(), seed=number)
            p99_ms[name].append(round(percentile(took_s, 99) * 1000, 1))
            print(
                f"round {number + 1}  {name:22} p99 of {len(took_s)} short calls {p99_ms[name][-1]:8.1f} ms", flush=True
            )
    return p99_ms


def main() -> None:
    parser = argparse.ArgumentParser(description="The tail of short calls among long ones.")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results there as well")
    options = parser.parse_args()
    p99_ms = asyncio.run(run())
    theirs = p99_ms.get("gunicorn.dirty")
    for name, rounds in p99_ms.items():
        ratios = [ours / other for ours, other in zip(rounds, theirs, strict=True)] if theirs else []
        ratio = f"  {median(ratios):.2f} of gunicorn's, median of {len(ratios)} rounds" if ratios else ""
        print(f"{name:22} median p99 {median(rounds):8.1f} ms{ratio}")
    if options.json is not None:
        options.json.write_text(json.dumps(p99_ms, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
