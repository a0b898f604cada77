"""Changes of the stash on the bus: of tables that ask for it, in order, and bounded."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from dirtybus.config import StashConfig, TableConfig
from dirtybus.events import StashChanged
from dirtybus.services.reporter import Reporter
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash
from dirtybus.stash.keeper import Keeper
from tests.arbiter.serving import until

pytestmark = pytest.mark.timeout(60)


class Told:
    """Takes events; each is done with at once, or when the test says so."""

    def __init__(self) -> None:
        self.events: list[StashChanged] = []
        self.under_way: list[asyncio.Future[None]] = []
        self.is_slow = False

    def __call__(self, event: StashChanged) -> Awaitable[object] | None:
        self.events.append(event)
        if not self.is_slow:
            return None
        done = asyncio.get_running_loop().create_future()
        self.under_way.append(done)
        return done

    def seen(self) -> list[tuple[str, str, object]]:
        return [(event.table, event.kind, event.key) for event in self.events]


@asynccontextmanager
async def reporting(keeper: Keeper) -> AsyncIterator[Told]:
    told = Told()
    reporter = Reporter(keeper.news, told)
    reporter.start()
    try:
        yield told
    finally:
        await reporter.close()


def keeper_of(*names: str) -> Keeper:
    return Keeper(StashConfig(tables={name: TableConfig(watch=True) for name in names}))


async def test_only_tables_that_ask_for_it_are_told_about_and_in_order() -> None:
    keeper = keeper_of("orders")
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    async with reporting(keeper) as told:
        await stash.put("orders", "a", 1)
        await stash.put("quiet", "a", 1)
        await stash.delete("orders", "a")
        await stash.delete_table("orders")
        await until(lambda: len(told.events) == 3)
    assert told.seen() == [("orders", "put", "a"), ("orders", "deleted", "a"), ("orders", "dropped", None)]


async def test_it_can_be_asked_for_while_the_owner_runs_and_ended_again() -> None:
    keeper = Keeper()
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    async with reporting(keeper) as told:
        await stash.put("t", "before", 1)
        await stash.ensure("t", watch=True)
        await stash.put("t", "k", 1)
        await stash.ensure("t", watch=False)
        await stash.put("t", "after", 1)
        await stash.ensure("t", watch=True)
        await stash.delete_table("t")
        await until(lambda: len(told.events) == 2)
    assert told.seen() == [("t", "put", "k"), ("t", "dropped", None)]


async def test_listeners_that_are_slow_make_a_gap_and_not_a_heap() -> None:
    keeper = keeper_of("t")
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    async with reporting(keeper) as told:
        told.is_slow = True
        for start in range(0, 30_000, 1000):
            await stash.put_many("t", dict.fromkeys(range(start, start + 1000), 1))
        assert len(told.under_way) <= 100
        told.is_slow = False
        for done in told.under_way:
            done.set_result(None)
        await until(lambda: told.events[-1].kind == "gap")
        lost = told.events[-1].lost
        assert len(told.events) - 1 + (lost or 0) == 30_000
        await stash.put("t", "later", 1)
        await until(lambda: told.events[-1].key == "later")


async def test_no_change_goes_untold_whichever_thread_makes_it() -> None:
    keeper = keeper_of("t")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        async with reporting(keeper) as told:
            handle = Stash(LocalPort(keeper))
            writers = [
                threading.Thread(target=lambda: [handle.put("t", "k", number) for number in range(2000)])
                for _ in range(3)
            ]
            for writer in writers:
                writer.start()
            for writer in writers:
                await asyncio.to_thread(writer.join)
            await until(lambda: sum(event.lost or 1 for event in told.events) == 6000)
            await asyncio.to_thread(handle.put, "t", "last", 1)
            await until(lambda: told.events[-1].key == "last")
    finally:
        sys.setswitchinterval(before)


async def test_a_listener_that_fails_holds_up_nobody() -> None:
    keeper = keeper_of("t")
    stash = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
    async with reporting(keeper) as told:
        told.is_slow = True
        await stash.put("t", "a", 1)
        await until(lambda: told.under_way)
        told.under_way[0].set_exception(ValueError("a listener's own"))
        told.is_slow = False
        await stash.put("t", "b", 1)
        await until(lambda: told.events[-1].key == "b")
