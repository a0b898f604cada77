from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dirtybus.stash.coalesce import coalesced
from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Row, Upsert
from tests.stash.dict_store import DictStore, value_row

INF = float("inf")
TABLES, KEYS, PARTS = st.sampled_from("tu"), st.sampled_from([b"a", b"b"]), st.sampled_from([b"1", b"2", b"3"])
VERSIONS = st.integers(1, 99)


def _row(table: str, key: bytes, value: bytes | None, kind: Any, version: int) -> Row:
    return Row(table, key, value, kind, version, INF, INF, INF)


_wholes = st.builds(_row, TABLES, KEYS, st.binary(max_size=2), st.just("value"), VERSIONS)
_kept = st.builds(_row, TABLES, KEYS, st.none(), st.just("value"), VERSIONS)
_sets = st.builds(_row, TABLES, KEYS, st.none(), st.just("set"), VERSIONS)
_items = st.lists(st.tuples(PARTS, st.binary(max_size=1)), max_size=3, unique_by=lambda part: part[0]).map(tuple)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Upsert, _wholes, is_new=st.just(True)),
    st.builds(Upsert, _kept),
    st.builds(Upsert, _sets, _items, st.just(()), is_new=st.just(True)),
    st.builds(Upsert, _sets, _items, st.lists(PARTS, max_size=2).map(tuple)),
    st.builds(Erase, TABLES, KEYS),
    st.builds(Clear, TABLES),
    st.builds(Drop, TABLES),
    st.builds(Define, TABLES, st.binary(max_size=1)),
)


def _is_sound(store: DictStore, change: Change) -> bool:
    """Whether the tables could tell it: a delta is of what is there, and of its kind."""
    if not isinstance(change, Upsert) or change.is_new:
        return True
    old = store.rows.get((change.row.table, change.row.key))
    return old is not None and old.kind == change.row.kind


@given(st.lists(CHANGES, max_size=20), st.lists(CHANGES, max_size=30))
def test_what_is_coalesced_comes_to_the_same(before: list[Change], changes: list[Change]) -> None:
    one, other = DictStore(), DictStore()
    for change in before:
        if _is_sound(one, change):
            one.apply(change)
            other.apply(change)
    sound = []
    for change in changes:
        if _is_sound(one, change):
            one.apply(change)
            sound.append(change)
    fewest = coalesced(sound)
    for change in fewest:
        other.apply(change)
    assert other.content() == one.content()
    upserts = [(change.row.table, change.row.key) for change in fewest if isinstance(change, Upsert)]
    assert len({*upserts}) == len(upserts)


def test_an_erased_collection_does_not_come_back_with_its_old_parts() -> None:
    fewest = coalesced([Erase("t", b"k"), Upsert(_row("t", b"k", None, "set", 2), ((b"2", b""),))])
    assert fewest == [Upsert(_row("t", b"k", None, "set", 2), ((b"2", b""),), is_new=True)]


def test_other_spans_of_a_value_that_was_just_written_are_written_with_it() -> None:
    fewest = coalesced([Upsert(value_row(version=1), is_new=True), Upsert(value_row(value=None, version=2))])
    assert fewest == [Upsert(value_row(version=2), is_new=True)]


def _time_of(count: int) -> float:
    row = _row("t", b"k", None, "list", 1)
    pushes = [Upsert(row, ((number.to_bytes(8, "big"), b"x"),)) for number in range(count)]
    began_at = time.process_time()
    assert len(coalesced(pushes)) == 1
    return time.process_time() - began_at


def test_many_pushes_to_one_list_take_time_in_proportion() -> None:
    few = min(_time_of(4_000) for _ in range(3))
    assert min(_time_of(32_000) for _ in range(3)) < 30 * few  # 8 times as many; squared, it would be 64 times
