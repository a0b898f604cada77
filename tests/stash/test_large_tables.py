from __future__ import annotations

import asyncio
import gc
import time
from itertools import pairwise

import pytest

from dirtybus.config.stash import StashConfig
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.ops_entries import Put
from dirtybus.stash.ops_many import Clear, DeleteTable, Page, PutMany
from dirtybus.stash.sweeper import Sweeper
from tests.arbiter.serving import until


def filled(tables: StashTables, count: int, expires_in_s: float | None = None) -> None:
    for start in range(0, count, 1000):
        keys = tuple(b"key %d" % number for number in range(start, start + 1000))
        PutMany("t", keys, keys, expires_in_s).apply(tables, 0)


@pytest.mark.parametrize("op", [Clear("t"), DeleteTable("t")])
def test_giving_up_a_large_table_takes_nothing_apart_at_once(op: Clear | DeleteTable) -> None:
    tables = StashTables()
    filled(tables, 20_000)
    op.apply(tables, 0)
    left = [sum(map(len, tables.book.trash))]
    assert left == [20_000]
    while tables.sweep(0):
        left.append(sum(map(len, tables.book.trash)))
    assert max(before - after for before, after in pairwise(left)) <= 1024
    assert len(left) >= 20


def test_a_page_of_a_large_table_looks_at_few_entries() -> None:
    tables = StashTables()
    filled(tables, 20_000)
    seen: list[bytes] = []
    cursor = None
    while True:
        page = Page("t", cursor, 500).apply(tables, 0)
        assert len(page.keys) <= 500
        seen += page.keys
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == len({*seen}) == 20_000


def test_a_put_into_a_large_table_remembers_nothing_of_the_others() -> None:
    tables = StashTables()
    filled(tables, 20_000)
    before = len(tables.get("t").entries.all)
    kept: list[int] = []

    def steps() -> None:
        Put("t", b"new", b"").apply(tables, 0)
        Put("t", b"key 5", b"").apply(tables, 0)
        kept.append(len(tables.book.undo or ()))

    tables.book.all_or_nothing(steps)
    assert kept == [2]
    assert before == len(tables.get("t").entries.all) > 4


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_million_entries_never_hold_the_loop_for_long(capsys: pytest.CaptureFixture[str]) -> None:
    count, lags = 1_000_000, list[tuple[float, str]]()
    what = "nothing"

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            lags.append((time.perf_counter() - before - 0.001, what))

    keeper = Keeper(StashConfig(max_bytes=None))
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    sweeper = Sweeper(keeper)
    sweeper.start()
    ticker = asyncio.create_task(tick())
    tables = keeper.state.tables

    async def fill(expires_in: float | None = None) -> None:
        for start in range(0, count, 1000):
            entries = {f"key {number}": number for number in range(start, start + 1000)}
            await stash.put_many("t", entries, expires_in=expires_in)
            await asyncio.sleep(0)

    try:
        what = "put_many, to expire"
        await fill(60.0)
        what = "gc"
        gc.collect()
        await asyncio.sleep(0.005)
        what = "scan"
        seen = 0
        cursor: tuple[int, int] | None = None
        while True:
            page, cursor = await stash.scan("t", cursor)
            seen += len(page)
            await asyncio.sleep(0)
            if cursor is None:
                break
        assert seen == count
        what = "expiry"
        keeper._clock = lambda: time.monotonic() + 3600
        sweeper._turn()
        await until(lambda: len(tables.get("t")) == 0, within_s=120)
        for end in (stash.clear, stash.delete_table):
            what = "put_many"
            await fill()
            assert await stash.length("t") == count
            what = end.__name__
            await end("t")
            await until(lambda: not tables.book.trash, within_s=60)
    finally:
        ticker.cancel()
        sweeper.stop()
        await asyncio.gather(ticker, return_exceptions=True)
    worst = {name: max(lag for lag, of in lags if of == name) for name in dict.fromkeys(of for _, of in lags)}
    with capsys.disabled():
        print({name: f"{1000 * lag:.1f} ms" for name, lag in worst.items()})
    # wanted are 20 ms, which a quiet machine keeps, but while the table is filled: a full garbage collection looks at
    # each entry. Here the machine may be busy
    filling = {"put_many", "put_many, to expire", "gc"}
    assert max(lag for name, lag in worst.items() if name not in filling) < 0.1, worst
    assert max(worst.values()) < 0.4, worst
