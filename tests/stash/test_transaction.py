from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from dirtybus.config.stash import StashConfig, TableConfig
from dirtybus.errors import StashConflict, StashError, StashFull
from dirtybus.protocol.codec import encode_whole
from dirtybus.stash import AsyncStash, LocalPort, Stash
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.ops import Condition, Transact
from dirtybus.stash.ops_entries import Get, Incr, Put
from dirtybus.stash.ops_many import Clear, DeleteTable, Ensure, Length, Rules
from dirtybus.stash.ops_parts import Push
from tests.stash.conftest import CountingPort
from tests.stash.replay import check, everything

K, ONE = b"k", encode_whole(1)
FAILS = Push("t", b"number", (ONE,))


def test_all_happens_at_once_and_tells_what_came_of_it(handle: Stash, port: CountingPort) -> None:
    handle.put("t", "ada", 10)
    port.verbs.clear()
    with handle.transaction() as tx:
        left = tx.get("t", "ada")
        put = tx.put("t", "ada", left - 3)
        bob = tx.incr("t", "bob", 3)
        with pytest.raises(StashError, match="not committed"):
            _ = bob.value
    assert (bob.value, handle.items("t")) == (3, [("ada", 7), ("bob", 3)])
    assert put.value == handle.get_with_version("t", "ada")[1]
    assert port.verbs[:2] == ["get", "transact"]


def test_what_somebody_changed_in_between_is_a_conflict_and_nothing_is_done(handle: Stash) -> None:
    handle.put("t", "ada", 10)
    with pytest.raises(StashConflict, match="begin it again"), handle.transaction() as tx:
        tx.incr("t", "bob", 1)
        tx.put("t", "ada", tx.get("t", "ada") + 1)
        handle.put("t", "ada", 10)
    assert handle.items("t") == [("ada", 10)]


def test_that_it_is_still_missing_can_be_a_condition_too(handle: Stash) -> None:
    with handle.transaction() as tx:
        assert tx.get("t", "k") is None
        tx.put("t", "k", 1)
    with pytest.raises(StashConflict), handle.transaction() as tx:
        tx.if_unchanged("t", "k", 0)
    assert handle.get("t", "k") == 1


def test_a_block_that_raises_does_nothing(handle: Stash, port: CountingPort) -> None:
    with pytest.raises(ZeroDivisionError), handle.transaction() as tx:
        tx.put("t", "k", 1)
        _ = 1 / 0
    assert port.verbs == []
    with pytest.raises(StashError, match="is over"):
        tx.put("t", "k", 1)


def test_an_empty_one_asks_nothing(handle: Stash, port: CountingPort) -> None:
    with handle.transaction():
        pass
    assert port.verbs == []


def test_transact_tries_again_until_nobody_interferes(handle: Stash) -> None:
    tries: list[int] = []

    def add(tx: Any) -> int:
        number: int = tx.get("t", "k", 0)
        tries.append(number)
        if len(tries) < 3:
            handle.incr("t", "k", 10)
        tx.put("t", "k", number + 1)
        return number

    assert handle.transact(add) == 20
    assert tries == [0, 10, 20]
    assert handle.get("t", "k") == 21


def test_a_transaction_says_which_of_its_operations_was_refused() -> None:
    tables = StashTables(follows_all=True)
    Put("t", b"number", ONE).apply(tables, 0)
    with pytest.raises(StashError, match=r"operation 2 of 2, so nothing was done: .* is no list"):
        Transact((Get("t", K), FAILS)).apply(tables, 0)


def test_all_that_a_refused_one_did_is_taken_back() -> None:
    rules = {"lru": TableConfig(max_entries=2, on_full="lru"), "few": TableConfig(max_entries=1)}
    tables = StashTables(StashConfig(tables=rules), follows_all=True)
    Put("t", b"number", ONE).apply(tables, 0)
    Put("t", b"due", ONE, expires_in_s=5).apply(tables, 0)
    Put("lru", b"a", ONE).apply(tables, 1)
    Put("lru", b"b", ONE, idle_s=50).apply(tables, 2)
    Push("t", b"list", (ONE,)).apply(tables, 2)
    tables.book.take_notes()
    before = everything(tables)
    did = (
        Get("lru", b"a"), Get("t", b"due"), Put("lru", b"c", ONE), Put("lru", b"d", ONE), Clear("lru"),
        Put("lru", b"e", ONE), Push("t", b"list", (ONE, ONE), is_left=True), Clear("t"), DeleteTable("t"),
        Put("t", b"number", ONE), Ensure("t", Rules(max_entries=5)), Ensure("new"),
    )  # fmt: skip
    with pytest.raises(StashError):
        Transact((*did, FAILS)).apply(tables, 10)
    assert everything(tables) == before
    assert tables.book.notes == tables.book.trash == []
    assert tables.names() == ["lru", "t"]
    check(tables)
    assert [*tables.get("lru").entries] == [b"a", b"b"]
    while tables.sweep(10):
        pass
    assert tables.get("t").expired == 1


def test_a_cleared_table_that_comes_back_expires_in_time() -> None:
    tables = StashTables(StashConfig(tables={"t": TableConfig(max_entries=1)}))
    Put("t", K, ONE, expires_in_s=5).apply(tables, 0)
    with pytest.raises(StashFull):
        Transact((Clear("t"), Put("t", b"a", ONE, 1e-300), Put("t", b"b", ONE), Put("t", b"c", ONE))).apply(tables, 1)
    assert tables.get("t").due_at == 5
    check(tables)
    tables.sweep(5)
    assert len(tables.get("t")) == 0


def test_what_a_transaction_clears_is_let_go_of_bit_by_bit() -> None:
    tables = StashTables()
    for number in range(5000):
        Put("t", b"%d" % number, ONE).apply(tables, 0)
    Push("t", b"list", (ONE,) * 6000).apply(tables, 0)
    Transact((Clear("t"), Length("t"))).apply(tables, 0)
    turns = 0
    while tables.sweep(0):
        turns += 1
    assert turns >= 10
    assert tables.book.trash == []


@pytest.mark.parametrize("writes", [1, 5])
def test_a_list_that_is_written_over_is_let_go_of_bit_by_bit(writes: int) -> None:
    tables = StashTables()
    Push("t", K, (ONE,) * 6000).apply(tables, 0)
    for _ in range(writes):
        Put("t", K, ONE).apply(tables, 0)
    assert [len(thing) for thing in tables.book.trash] == [6000]


def test_a_condition_is_no_use_and_an_unmet_one_changes_nothing() -> None:
    tables = StashTables(StashConfig(tables={"t": TableConfig(on_full="lru")}))
    version = Put("t", K, ONE).apply(tables, 0).version
    Put("t", b"other", ONE).apply(tables, 1)
    before = everything(tables)
    Transact((), (Condition("t", K, version),)).apply(tables, 2)
    with pytest.raises(StashConflict):
        Transact((Incr("t", K, 1),), (Condition("t", K, version), Condition("t", b"other", 0))).apply(tables, 2)
    assert everything(tables) == before


async def test_threads_and_tasks_of_the_owner_lose_no_increment(keeper: Keeper, async_handle: AsyncStash) -> None:
    handle = Stash(LocalPort(keeper))

    def add(tx: Any) -> None:
        tx.put("t", "transacted", tx.get("t", "transacted", 0) + 1)

    def work() -> None:
        for _ in range(200):
            handle.incr("t", "counted")
            handle.transact(add)

    async def task() -> None:
        for _ in range(100):
            await async_handle.incr("t", "counted")
            await async_handle.transact(add_async)

    async def add_async(tx: Any) -> None:
        tx.put("t", "transacted", await tx.get("t", "transacted", 0) + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(30):
        await asyncio.gather(*(task() for _ in range(4)))
        await asyncio.gather(*(asyncio.to_thread(thread.join, 30) for thread in threads))
    assert dict(handle.items("t")) == {"counted": 1200, "transacted": 1200}
