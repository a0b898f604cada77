"""What watchers see: every change that matches, in order, or a gap."""

from __future__ import annotations

import asyncio
import random
import threading
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.config import StashConfig, TableConfig
from dirtybus.errors import StashError
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash
from dirtybus.stash import changes as changes_module
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_watch import Watch
from dirtybus.stash.sweeper import Sweeper
from dirtybus.stash.watchers import StashChange, Watcher
from tests.arbiter.serving import until

pytestmark = pytest.mark.timeout(30)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def seen_by(watcher: Watcher) -> list[StashChange]:
    """Return what has come for a watcher, without waiting: nobody moves the clock of these tests but they."""
    watcher._place.take(watcher._port.ask(watcher._place.question(0)))
    found = []
    while change := watcher._place.pop():
        found.append(change)
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(clock: Clock) -> Keeper:
    return Keeper(clock=clock)


@pytest.fixture
def handle(keeper: Keeper) -> Stash:
    return Stash(LocalPort(keeper))


@pytest.fixture
def tasks(keeper: Keeper) -> AsyncStash:
    return AsyncStash(AsyncLocalPort(LocalPort(keeper)))


def test_a_watcher_sees_each_change_since_it_was_made(handle: Stash) -> None:
    handle.put("t", "before", 1)
    watcher = handle.watch("t")
    version = handle.put("t", "k", 1)
    handle.delete("t", "k")
    handle.put("other", "k", 1)
    handle.push("t", "l", 1)
    handle.push("t", "l", 2)
    handle.clear("t")
    handle.delete_table("t")
    seen = seen_by(watcher)
    assert [(change.kind, change.key) for change in seen] == [
        ("put", "k"), ("deleted", "k"), ("put", "l"), ("put", "l"), ("cleared", None), ("dropped", None),
    ]  # fmt: skip
    assert seen[0].version == version
    assert {change.table for change in seen} == {"t"}
    handle.put("t", "again", 1)  # the same watcher goes on, also over a table that is made anew
    assert [change.key for change in seen_by(watcher)] == ["again"]


def test_expiry_and_eviction_are_changes(clock: Clock) -> None:
    keeper = Keeper(StashConfig(tables={"t": TableConfig(max_entries=2, on_full="lru")}), clock=clock)
    handle = Stash(LocalPort(keeper))
    watcher = handle.watch("t")
    for key in ("a", "b", "c"):
        handle.put("t", key, 1, expires_in=5)
    clock.now += 6
    while keeper.sweep():
        pass
    seen = [(change.kind, change.key) for change in seen_by(watcher)]
    assert seen[:4] == [("put", "a"), ("put", "b"), ("evicted", "a"), ("put", "c")]
    assert sorted(seen[4:]) == [("expired", "b"), ("expired", "c")]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**64))
def test_each_watcher_sees_what_matches_in_order_or_a_gap_of_the_right_size(seed: int) -> None:
    chance, clock = random.Random(seed), Clock()
    keeper = Keeper(clock=clock)
    handle = Stash(LocalPort(keeper))
    log: list[tuple[str, str]] = []
    places: list[tuple[str | None, tuple[int, int], int]] = []
    with mock.patch.object(changes_module, "_MOST_CHANGES", 20):
        for _ in range(120):
            what = chance.random()
            if what < 0.1:
                pattern = chance.choice([None, "a*", "z*"])
                reply = LocalPort(keeper).ask(Watch("t", pattern))
                assert reply.cursor is not None
                places.append((pattern, reply.cursor, len(log)))
            elif what < 0.8 or not places:
                key = chance.choice(["a1", "a2", "b1"])
                if chance.random() < 0.7:
                    handle.put("t", key, 1)
                    log.append(("put", key))
                elif handle.delete("t", key):
                    log.append(("deleted", key))
            else:
                pattern, cursor, seen = places.pop(chance.randrange(len(places)))
                reply = LocalPort(keeper).ask(Watch("t", pattern, cursor))
                assert reply.cursor is not None
                assert reply.is_true is (len(log) - seen <= 20), (reply, seen, len(log))
                if len(log) - seen > 20:
                    assert (reply.is_true, reply.count) == (False, len(log) - seen - 20)
                    places.append((pattern, reply.cursor, len(log) - 20))
                    continue
                wanted = [
                    (kind, key) for kind, key in log[seen:] if pattern is None or key.startswith(pattern[0])
                ]  # fmt: skip
                assert [(change.kind, (change.key or b"")[2:].decode()) for change in reply.changes] == wanted
                places.append((pattern, reply.cursor, len(log)))


def test_a_watcher_that_waits_for_what_never_comes_is_neither_woken_nor_told_of_a_gap(
    keeper: Keeper, handle: Stash
) -> None:
    begun = LocalPort(keeper).ask(Watch("t", "z*"))
    answers: list[object] = []
    keeper.submit(Watch("t", "z*", begun.cursor, 50), "somebody", answers.append)
    for number in range(30):
        handle.put_many("t", {f"a{number} {each}": 1 for each in range(1000)})  # more than the log remembers
        assert answers == []
    handle.put("t", "z", 1)
    (answer,) = answers
    assert isinstance(answer, StashReply)
    assert answer.is_true
    assert [change.kind for change in answer.changes] == ["put"]


def test_a_slow_watcher_sees_a_gap_and_goes_on(handle: Stash) -> None:
    watcher = handle.watch("t")
    for number in range(12):
        handle.put_many("t", {f"{number} {each}": 1 for each in range(1000)})
    gap = next(watcher)
    assert (gap.kind, gap.lost) == ("gap", 2000)
    assert next(watcher).key == "2 0"


def test_a_log_that_nobody_asks_for_is_given_up(clock: Clock, keeper: Keeper, handle: Stash) -> None:
    watcher = handle.watch("t")
    clock.now += 121
    keeper.sweep()
    assert not keeper.state.logs.has_any
    handle.put("t", "k", 1)
    assert next(watcher).kind == "gap"
    assert seen_by(watcher) == []


async def test_tasks_watch_and_leave_nothing_behind(keeper: Keeper, tasks: AsyncStash) -> None:
    async with tasks.watch("t") as changes:
        await tasks.put("t", "k", 1)
        assert (await anext(changes)).key == "k"
        waiting = asyncio.ensure_future(anext(changes))
        await until(lambda: keeper.waiting == 1)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert keeper.waiting == 0


async def test_a_watcher_is_woken_by_what_another_thread_does(keeper: Keeper, tasks: AsyncStash) -> None:
    async with tasks.watch("t", "user:*") as changes:
        handle = Stash(LocalPort(keeper))
        writer = threading.Thread(target=lambda: [handle.put("t", key, 1) for key in ("x", "user:1", "y")])
        writer.start()
        assert (await asyncio.wait_for(anext(changes), 10)).key == "user:1"
        writer.join()


async def test_an_expiry_wakes_a_watcher_on_a_real_clock() -> None:
    keeper = Keeper()
    sweeper = Sweeper(keeper)
    sweeper.start()
    try:
        tasks = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
        async with tasks.watch("t", timeout=20) as changes:
            await tasks.put("t", "k", 1, expires_in=0.05)
            assert [(await anext(changes)).kind for _ in range(2)] == ["put", "expired"]
    finally:
        sweeper.stop()


def test_nobody_waits_for_an_owner_that_has_ended(keeper: Keeper, handle: Stash) -> None:
    watcher = handle.watch("t")
    keeper.close()
    with pytest.raises(StashError, match="has ended"):
        next(watcher)
