from __future__ import annotations

import math

import pytest

from dirtybus.config.stash import StashConfig, TableConfig
from dirtybus.errors import StashError, StashFull
from dirtybus.protocol.codec import encode_whole
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.entry import ENTRY_BYTES
from dirtybus.stash.op import MOST_AT_ONCE, Op
from dirtybus.stash.ops import Condition, Transact
from dirtybus.stash.ops_entries import Cas, Get, Incr, Put, SetDefault, Touch
from dirtybus.stash.ops_many import DeleteMany, Ensure, GetMany, Page, PutMany, Rules
from dirtybus.stash.ops_parts import Add, PopItems, Push, Remove
from dirtybus.stash.parts import PART_BYTES
from tests.stash.replay import check, everything

K, ONE = b"k", encode_whole(1)
MANY = (b"x",) * (MOST_AT_ONCE + 1)
NO_SPANS = [0.0, -1.0, -math.inf, math.nan]


def refused(tables: StashTables, op: Op, why: str) -> None:
    """Expect that ``op`` is refused and nothing is changed by it, alone or with others."""
    for one in (op, Transact((Put("new", K, ONE), Put("t", b"other", ONE), op))):  # type: ignore[arg-type]
        before, names = everything(tables), tables.names()
        with pytest.raises(StashError, match=why):
            one.apply(tables, 0)
        assert everything(tables) == before
        assert tables.names() == names
        assert tables.book.notes == []
        check(tables)


@pytest.fixture
def followed() -> StashTables:
    tables = StashTables(follows_all=True)
    Put("t", K, ONE).apply(tables, 0)
    tables.book.take_notes()
    return tables


@pytest.mark.parametrize("name", ["t", "missing"])
@pytest.mark.parametrize("span_s", NO_SPANS)
def test_a_span_that_is_none_is_refused_by_the_owner_too(followed: StashTables, name: str, span_s: float) -> None:
    for spans in ((span_s, None), (None, span_s)):
        for op in (
            Put(name, K, ONE, *spans),
            SetDefault(name, K, ONE, *spans),
            Incr(name, K, 1, *spans),
            Cas(name, K, ONE if name == "t" else None, ONE, *spans),
            PutMany(name, (K,), (ONE,), *spans),
            Push(name, b"list", (ONE,), False, *spans),
            Add(name, b"set", (ONE,), *spans),
        ):
            refused(followed, op, "must be more than 0 s, not")
    refused(followed, Touch(name, K, span_s), "must be more than 0 s, not")


@pytest.mark.parametrize(
    "op",
    [
        PutMany("t", MANY, MANY), GetMany("t", MANY), DeleteMany("t", MANY), Push("t", K, MANY), Add("t", K, MANY),
        Remove("t", K, MANY), PopItems("t", K, MOST_AT_ONCE + 1),
    ],
)  # fmt: skip
def test_one_operation_is_about_so_much_at_most(followed: StashTables, op: Op) -> None:
    refused(followed, op, f"at most {MOST_AT_ONCE}")


def test_so_are_all_of_a_transaction_together(followed: StashTables) -> None:
    half = (b"x",) * (MOST_AT_ONCE // 2)
    for transaction in (
        Transact((Get("t", K),) * (MOST_AT_ONCE + 1)),
        Transact((Get("t", K),), (Condition("t", K, 0),) * MOST_AT_ONCE),
        Transact((PutMany("t", half, half), GetMany("t", half), Get("t", K))),
        Transact((Page("t", most=MOST_AT_ONCE // 2), Push("t", K, half), Get("t", K))),
    ):
        before = everything(followed)
        with pytest.raises(StashError, match=f"at most {MOST_AT_ONCE}"):
            transaction.apply(followed, 0)
        assert everything(followed) == before


@pytest.mark.parametrize("count", [0, -1, -(2**63)])
def test_one_pops_at_least_one_item(followed: StashTables, count: int) -> None:
    refused(followed, PopItems("t", K, count), "at least 1, not")


@pytest.mark.parametrize("keys", [(), (K,), (K, b"l", b"m")])
def test_each_key_comes_with_its_value(followed: StashTables, keys: tuple[bytes, ...]) -> None:
    refused(followed, PutMany("t", keys, (ONE, ONE)), f"{len(keys)} keys came with 2 values")


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_table_is_called_by_1_to_255_letters(followed: StashTables, name: str) -> None:
    for op in (Put(name, K, ONE), Incr(name, K, 1), Push(name, K, ()), Ensure(name)):
        refused(followed, op, "1 to 255 characters")


@pytest.mark.parametrize("most", [-(2**63), -1, 0, 2**63, 2**64 - 1])
def test_a_page_holds_1_to_10000_entries_whatever_is_asked_for(most: int) -> None:
    tables = StashTables()
    for start in range(0, 20_000, 5000):
        keys = tuple(b"%d" % number for number in range(start, start + 5000))
        PutMany("t", keys, keys).apply(tables, 0)
    reply = Page("t", most=most).apply(tables, 0)
    assert len(reply.keys) == (1 if most < 1 else 10_000)
    assert Page("t", (0, 2**64 - 1)).apply(tables, 0).keys == ()


@pytest.mark.parametrize(
    "rules", [Rules(expires_in_s=-1.0), Rules(expires_in_s=math.nan), Rules(idle_s=-1.0), Rules(max_entries=-1)]
)
def test_rules_that_are_none_are_refused(followed: StashTables, rules: Rules) -> None:
    refused(followed, Ensure("t", rules), "the rules of a table")


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\xc1", b"\x07", b"\x00\xc7\x03\x05abc", b"\x00\x91"])
def test_a_value_that_is_none_is_refused_where_it_would_be_opened(value: bytes) -> None:
    tables = StashTables(follows_all=True)
    Put("t", K, value).apply(tables, 0)
    tables.book.take_notes()
    for op in (Incr("t", K, 1), Push("t", K, (ONE,)), PopItems("t", K), Add("t", K, (ONE,)), Remove("t", K, (ONE,))):
        refused(tables, op, "what stands under 'k'|what stands under a key")
    assert not Cas("t", K, ONE, ONE).apply(tables, 0).is_true
    assert Cas("t", K, value, ONE).apply(tables, 0).is_true


def test_a_set_of_another_code_or_of_garbage_is_no_set() -> None:
    tables = StashTables()
    for written in (b"\x00\xc7\x01\x05\xc1", bytes([0]) + encode_whole({1})[1:-1] + b"\xc1"):
        Put("t", K, written).apply(tables, 0)
        with pytest.raises(StashError, match="is no set"):
            Add("t", K, (ONE,)).apply(tables, 0)


def test_a_float_that_grows_too_large_is_refused(followed: StashTables) -> None:
    Put("t", K, encode_whole(10**400)).apply(followed, 0)
    followed.book.take_notes()
    refused(followed, Incr("t", K, 0.5), "too large for a float")


@pytest.mark.parametrize("on_full", ["refuse", "lru"])
def test_a_list_that_does_not_fit_when_it_is_taken_apart_stays_as_it_is(on_full: str) -> None:
    body = encode_whole(list(range(10)))
    room = ENTRY_BYTES + 1 + len(body)
    rules = TableConfig(max_bytes=room + 2 * PART_BYTES, on_full=on_full)  # type: ignore[arg-type]
    tables = StashTables(StashConfig(tables={"t": rules}), follows_all=True)
    Put("t", K, body).apply(tables, 0)
    tables.book.take_notes()
    before = everything(tables)
    with pytest.raises(StashFull):
        Push("t", K, (ONE,)).apply(tables, 0)
    assert everything(tables) == before
    assert tables.book.notes == []


def test_a_list_that_fits_apart_but_not_with_its_items_stays_as_it_is() -> None:
    body = encode_whole([1])
    rules = TableConfig(max_bytes=ENTRY_BYTES + 1 + PART_BYTES + 10)
    tables = StashTables(StashConfig(tables={"t": rules}), follows_all=True)
    for value, op in ((body, Push("t", K, (b"\x02",))), (encode_whole({1}), Add("t", K, (b"\x02",)))):
        Put("t", K, value).apply(tables, 0)
        tables.book.take_notes()
        before = everything(tables)
        with pytest.raises(StashFull):
            op.apply(tables, 0)
        assert everything(tables) == before
        assert tables.book.notes == []


def test_a_refused_first_entry_makes_no_table() -> None:
    tables = StashTables(StashConfig(max_bytes=1000))
    for op in (Put("t", K, bytes(1000)), SetDefault("t", K, bytes(1000)), Push("t", K, (bytes(1000),))):
        with pytest.raises(StashFull, match=r"raise stash\.max_bytes"):
            op.apply(tables, 0)
        assert tables.names() == []
