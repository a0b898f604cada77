"""A table of very many entries: what one takes, and how long the loop is held while they come, expire, pass and go."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Final

import psutil

from benchmarks.lag import Ticker

__all__ = ["BATCH", "Sizes", "batches", "measure_size", "memory_bytes"]

TABLE: Final = "many"
#: how many entries one call brings
BATCH: Final = 1_000
_IDLE_S: Final = 0.5
_LEAST_TTL_S: Final = 1.0
#: how long after its time the last entry may still be there
_EXPIRY_LIMIT_S: Final = 60.0

Sizes = dict[str, float]


def batches(entries: int) -> Iterator[dict[str, int]]:
    """Yield so many entries in small mappings: short texts to small numbers."""
    for start in range(0, entries, BATCH):
        yield {f"key:{number}": number % 1000 for number in range(start, min(start + BATCH, entries))}


def memory_bytes(pid: int | None = None) -> tuple[int, int]:
    """Return the resident and the proportional memory of a process, by default of this one."""
    gc.collect()
    memory = psutil.Process(pid).memory_full_info()
    return memory.rss, getattr(memory, "pss", memory.rss)


async def measure_size(stash: Any, entries: int, tell: Callable[[str], object]) -> Sizes:
    """Fill a table of ``stash`` twice, once to last and once to expire, and return what was found.

    Args:
        stash: the handle of the process that keeps the tables, on its loop.
        entries: how many there are to be.
        tell: takes a line about what goes on.

    Raises:
        AssertionError: entries were lost, or did not go.
    """
    found = {}
    async with Ticker() as ticker:
        await asyncio.sleep(_IDLE_S)
    found["idle_lag_ms"] = ticker.worst_ms

    tell("filling")
    before = memory_bytes()
    async with Ticker() as ticker:
        fill_s = await _fill(stash, entries, None)
    rss, pss = memory_bytes()
    found |= {
        "rss_bytes_per_entry": (rss - before[0]) / entries,
        "pss_bytes_per_entry": (pss - before[1]) / entries,
        "fill_lag_ms": ticker.worst_ms,
        "fill_entries_per_s": entries / fill_s,
    }
    _check(await stash.length(TABLE), entries, "after filling")

    tell("scanning")
    began_at, seen = perf_counter(), 0
    async with Ticker() as ticker:
        async for _ in stash.table(TABLE):
            seen += 1
    _check(seen, entries, "in a scan")
    found |= {"scan_lag_ms": ticker.worst_ms, "scan_keys_per_s": entries / (perf_counter() - began_at)}

    tell("clearing")
    async with Ticker() as ticker:
        await stash.clear(TABLE)
        await asyncio.sleep(_IDLE_S)  # what is freed later is part of it
    _check(await stash.length(TABLE), 0, "after clearing")
    found["clear_lag_ms"] = ticker.worst_ms
    return found | await _measure_expiry(stash, entries, max(_LEAST_TTL_S, 2 * fill_s), tell)


async def _measure_expiry(stash: Any, entries: int, ttl_s: float, tell: Callable[[str], object]) -> Sizes:
    tell(f"filling, to expire after {ttl_s:.1f} s")
    await _fill(stash, entries, ttl_s)
    _check(await stash.length(TABLE), entries, "before any was to expire")
    gives_up_at = perf_counter() + ttl_s + _EXPIRY_LIMIT_S
    async with Ticker() as ticker:
        while left := await stash.length(TABLE):
            assert perf_counter() < gives_up_at, f"{left} entries are there long after their time"
            await asyncio.sleep(0.05)
    return {"expiry_lag_ms": ticker.worst_ms}


async def _fill(stash: Any, entries: int, ttl_s: float | None) -> float:
    began_at = perf_counter()
    for batch in batches(entries):
        if ttl_s is None:
            await stash.put_many(TABLE, batch)
        else:
            await stash.put_many(TABLE, batch, expires_in=ttl_s)
        await asyncio.sleep(0)  # the caller's own turn is no lag of the stash
    return perf_counter() - began_at


def _check(count: int, expected: int, when: str) -> None:
    assert count == expected, f"{count} entries {when}, not {expected}"
