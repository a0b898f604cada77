from __future__ import annotations

import sys

import pytest

from dirtybus.config.stash import StashConfig, TableConfig
from dirtybus.errors import StashError, StashFull, StashTableNotFoundError
from dirtybus.stash import batch, book, buckets, entry, leases, ops, pages, parts, table
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.entry import ENTRY_BYTES
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import MISSING, Op
from dirtybus.stash.ops_entries import Cas, Delete, Exists, Get, Pop, Put, Touch, Ttl
from dirtybus.stash.ops_many import Clear, DeleteMany, DeleteTable, Ensure, GetMany, Info, Length, Page, PutMany, Tables
from dirtybus.stash.ops_parts import PopItems, Push, Remove, Size
from tests.stash.replay import check

A, B = key_bytes("a"), key_bytes("b")


def keys(tables: StashTables, name: str, pattern: str | None = None) -> tuple[bytes, ...]:
    return Page(name, pattern=pattern).apply(tables, 0).keys


def test_putting_makes_the_table(tables: StashTables) -> None:
    Put("t", A, b"1").apply(tables, 0)
    assert tables.names() == ["t"]
    assert Get("t", A).apply(tables, 0).value == b"1"


@pytest.mark.parametrize(
    "op",
    [
        Get("t", A), Pop("t", A), Delete("t", A), Exists("t", A), Exists("t"), Touch("t", A), Ttl("t", A),
        Cas("t", A, b"1", b"2"), Cas("t", A, None, None), GetMany("t", (A,)), DeleteMany("t", (A,)), Page("t"),
        Page("t", pattern="*"), Length("t"), Clear("t"), DeleteTable("t"), PopItems("t", A), Remove("t", A, (b"1",)),
        Size("t", A), Tables(),
    ],
)  # fmt: skip
def test_what_puts_nothing_makes_no_table(tables: StashTables, op: Op) -> None:
    reply = op.apply(tables, 0)
    assert reply.value is None
    assert reply.count == 0
    assert not any(reply.keys + reply.values)
    assert tables.names() == []


def test_info_on_a_missing_table_says_which(tables: StashTables) -> None:
    with pytest.raises(StashTableNotFoundError) as caught:
        Info("missing").apply(tables, 0)
    assert caught.value.table_name == "missing"


def test_a_value_is_handed_out_as_the_very_bytes_put_in(tables: StashTables) -> None:
    value = bytes(1000)
    Put("t", A, value).apply(tables, 0)
    assert Get("t", A).apply(tables, 0).value is value
    assert Page("t", has_values=True).apply(tables, 0).values[0] is value
    assert Pop("t", A).apply(tables, 0).value is value


def test_a_table_stays_when_its_last_entry_goes(tables: StashTables) -> None:
    Put("t", A, b"1").apply(tables, 0)
    assert Delete("t", A).apply(tables, 0).is_true
    assert Exists("t").apply(tables, 0).is_true
    Put("t", A, b"1").apply(tables, 0)
    assert Clear("t").apply(tables, 0).count == 1
    assert Exists("t").apply(tables, 0).is_true


def test_ensure_makes_once_and_empties_nothing(tables: StashTables) -> None:
    assert Ensure("t").apply(tables, 0).is_true
    Put("t", A, b"1").apply(tables, 0)
    assert not Ensure("t").apply(tables, 0).is_true
    assert Length("t").apply(tables, 0).count == 1


def test_keys_keep_the_order_in_which_they_came(tables: StashTables) -> None:
    for key in (B, A):
        Put("t", key, b"1").apply(tables, 0)
    Put("t", B, b"2").apply(tables, 0)
    assert keys(tables, "t") == (B, A)


def test_table_names_are_sorted(tables: StashTables) -> None:
    for name in ("b", "c", "a"):
        Ensure(name).apply(tables, 0)
    assert Tables().apply(tables, 0).names == ("a", "b", "c")


def test_a_pattern_finds_str_keys_only(tables: StashTables) -> None:
    for key in ("user:1", "user:2", "user", b"user:3", ("user:4",), None, 5):
        Put("t", key_bytes(key), b"").apply(tables, 0)
    assert keys(tables, "t", "user:*") == (key_bytes("user:1"), key_bytes("user:2"))
    assert len(keys(tables, "t", "*")) == 3


def test_an_empty_pattern_is_a_pattern(tables: StashTables) -> None:
    Put("t", A, b"1").apply(tables, 0)
    assert keys(tables, "t", "") == ()
    Put("t", key_bytes(""), b"1").apply(tables, 0)
    assert keys(tables, "t", "") == (key_bytes(""),)


def test_a_bad_pattern_is_refused_even_without_a_table(tables: StashTables) -> None:
    with pytest.raises(StashError):
        keys(tables, "missing", "x" * 2000)


def test_info_counts_entries_and_bytes(tables: StashTables) -> None:
    Put("t", b"kk", b"vvv").apply(tables, 0)
    Put("t", b"kk", b"v").apply(tables, 0)
    Put("u", b"k", b"v").apply(tables, 0)
    info = Info("t").apply(tables, 0).info
    assert info is not None
    assert [info[name] for name in ("name", "table", "size", "bytes")] == ["t", "t", 1, 3]
    assert info["memory_bytes"] == 3 + ENTRY_BYTES
    assert tables.size_bytes == 5
    assert repr(tables) == "<StashTables 2 tables, 2 entries, 5 bytes>"


def test_the_tables_load_nothing_that_touches_the_world() -> None:
    for module in (sys.modules[StashTables.__module__], table, book, buckets, entry, parts, pages, ops, batch, leases):
        assert not {"os", "time", "threading", "asyncio", "socket", "random"} & set(vars(module)), module


def test_ours_may_be_read_but_not_written(tables: StashTables) -> None:
    ours = tables.made("dirtybus.leases", is_ours=True)
    Get(ours.name, A).apply(tables, 0)
    assert Length(ours.name).apply(tables, 0).count == 0
    writers: list[Op] = [Put(ours.name, A, b""), Clear(ours.name), DeleteTable(ours.name), Push(ours.name, A, (b"",))]
    for op in [*writers, Touch(ours.name, A), PutMany("dirtybus.new", (A,), (b"",))]:
        with pytest.raises(StashError, match="one of the stash's own"):
            op.apply(tables, 0)
    assert tables.names() == [ours.name]


def test_there_are_only_so_many_tables_but_ours_have_room() -> None:
    tables = StashTables(StashConfig(max_tables=1))
    Ensure("t").apply(tables, 0)
    with pytest.raises(StashError, match=r"raise stash\.max_tables"):
        Ensure("u").apply(tables, 0)
    tables.made("dirtybus.leases", is_ours=True)


def test_what_is_due_is_gone_at_that_moment_and_counted_until_it_is_swept(tables: StashTables) -> None:
    Put("t", A, b"1", expires_in_s=5).apply(tables, 10)
    assert Get("t", A).apply(tables, 14.999).is_true
    assert tables.due_at == 15
    assert Length("t").apply(tables, 15).count == 1
    assert not Exists("t", A).apply(tables, 15).is_true
    assert Page("t").apply(tables, 15).keys == ()
    assert not tables.sweep(15)
    assert tables.get("t").expired == 1
    assert Length("t").apply(tables, 15).count == 0


def test_a_look_prolongs_an_idle_span_but_not_the_other(tables: StashTables) -> None:
    Put("t", A, b"1", expires_in_s=12, idle_s=5).apply(tables, 0)
    assert Get("t", A).apply(tables, 4).is_true
    assert Ttl("t", A).apply(tables, 5).span_s == 4
    assert Get("t", A).apply(tables, 8).is_true
    assert Ttl("t", A).apply(tables, 9).span_s == 3
    assert Get("t", A).apply(tables, 12) == MISSING


def test_touching_for_ever_leaves_nothing_due_in_the_end(tables: StashTables) -> None:
    Put("t", A, b"1", expires_in_s=5).apply(tables, 0)
    Touch("t", A, float("inf")).apply(tables, 1)
    assert not tables.sweep(6)
    assert tables.due_at == float("inf")
    assert Ttl("t", A).apply(tables, 10**9).span_s is None
    Touch("t", A, 3).apply(tables, 7)
    assert tables.due_at == 10


def test_a_key_written_again_and_again_does_not_pile_up_alarms(tables: StashTables) -> None:
    Put("t", B, b"1", expires_in_s=500).apply(tables, 0)
    for number in range(5000):
        Put("t", A, b"1", expires_in_s=1000).apply(tables, number / 1000)
    check(tables)
    assert sum(len(bucket.alarms) for bucket in tables.get("t").entries.all) < 100


def test_the_sweep_looks_at_no_more_than_it_may(tables: StashTables) -> None:
    for number in range(10):
        Put("t", b"%d" % number, b"", expires_in_s=1).apply(tables, 0)
    lengths = []
    while tables.sweep(2, most=3):
        lengths.append(len(tables.get("t")))
    assert lengths == [7, 4, 1]
    assert len(tables.get("t")) == 0


def test_a_full_table_removes_what_is_due_before_it_refuses() -> None:
    tables = StashTables(StashConfig(tables={"t": TableConfig(max_entries=1)}))
    Put("t", A, b"1", expires_in_s=1).apply(tables, 0)
    with pytest.raises(StashFull, match="max_entries 1"):
        Put("t", B, b"1").apply(tables, 0.5)
    Put("t", A, b"2", expires_in_s=1).apply(tables, 0.5)
    Put("t", B, b"1").apply(tables, 2)
    assert keys(tables, "t") == (B,)


def test_what_can_never_fit_evicts_nothing() -> None:
    config = StashConfig(max_bytes=4000, tables={"t": TableConfig(max_bytes=2000, on_full="lru")})
    tables = StashTables(config)
    Put("t", A, b"1").apply(tables, 0)
    Put("other", A, bytes(3000)).apply(tables, 0)
    for size in (2000, 1000):
        with pytest.raises(StashFull):
            Put("t", B, bytes(size)).apply(tables, 1)
    assert keys(tables, "t") == (A,)
    assert tables.get("t").evicted == 0


def test_a_bound_that_was_lowered_is_met_step_by_step(tables: StashTables) -> None:
    for start in range(0, 10_000, 5000):
        names = tuple(b"%d" % number for number in range(start, start + 5000))
        PutMany("t", names, names).apply(tables, 0)
    tables.set_rules("t", TableConfig(max_entries=10, on_full="lru"))
    sizes = []
    for number in range(4):
        Put("t", b"new %d" % number, b"").apply(tables, 1 + number)
        sizes.append(len(tables.get("t")))
    assert sizes == [10_000 - 4095, 10_000 - 2 * 4095, 10, 10]
    assert b"new 3" in keys(tables, "t")


@pytest.mark.parametrize("count", [3000, 10_000])
def test_the_oldest_of_many_buckets_goes_first(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "SPLIT_AT", 1000)
    tables = StashTables(StashConfig(tables={"t": TableConfig(max_entries=count, on_full="lru")}), follows_all=True)
    for number in range(count):
        Put("t", b"%d" % number, b"").apply(tables, number)
    assert 1 < len(tables.get("t").entries.all) <= 16
    for number in range(0, 100, 2):
        Get("t", b"%d" % number).apply(tables, count + number)
    tables.book.take_notes()
    for number in range(50):
        Put("t", b"new %d" % number, b"").apply(tables, 2 * count + number)
    gone = [note.key for note in tables.book.take_notes() if note.kind == "evicted"]
    assert gone == [b"%d" % number for number in range(1, 100, 2)]
