from __future__ import annotations

import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dirtybus.errors import StashError, StashTableNotFoundError
from dirtybus.stash.key import key_bytes
from dirtybus.stash.tables import StashTables

A, B = key_bytes("a"), key_bytes("b")


def test_putting_makes_the_table(tables: StashTables) -> None:
    tables.put("t", A, b"1")
    assert tables.tables() == ["t"]
    assert tables.get("t", A) == b"1"


def test_looking_makes_no_table(tables: StashTables) -> None:
    assert tables.get("t", A) is None
    assert tables.pop("t", A) is None
    assert not tables.delete("t", A)
    assert not tables.exists("t", A)
    assert not tables.exists("t")
    assert tables.length("t") == 0
    assert tables.keys("t") == tables.keys("t", "*") == []
    assert tables.items("t") == []
    assert tables.clear("t") == 0
    assert not tables.delete_table("t")
    assert tables.tables() == []


def test_info_on_a_missing_table_says_which(tables: StashTables) -> None:
    with pytest.raises(StashTableNotFoundError) as caught:
        tables.info("missing")
    assert caught.value.table_name == "missing"


def test_a_value_is_handed_out_as_the_very_bytes_put_in(tables: StashTables) -> None:
    value = bytes(1000)
    tables.put("t", A, value)
    assert tables.get("t", A) is value
    assert tables.items("t")[0][1] is value
    assert tables.pop("t", A) is value


def test_a_table_stays_when_its_last_entry_goes(tables: StashTables) -> None:
    tables.put("t", A, b"1")
    assert tables.delete("t", A)
    assert tables.exists("t")
    tables.put("t", A, b"1")
    assert tables.clear("t") == 1
    assert tables.exists("t")


def test_ensure_makes_once_and_empties_nothing(tables: StashTables) -> None:
    assert tables.ensure("t")
    tables.put("t", A, b"1")
    assert not tables.ensure("t")
    assert tables.length("t") == 1


def test_keys_keep_the_order_in_which_they_came(tables: StashTables) -> None:
    for key in (B, A):
        tables.put("t", key, b"1")
    tables.put("t", B, b"2")
    assert tables.keys("t") == [B, A]


def test_table_names_are_sorted(tables: StashTables) -> None:
    for name in ("b", "c", "a"):
        tables.ensure(name)
    assert tables.tables() == ["a", "b", "c"]


def test_a_pattern_finds_str_keys_only(tables: StashTables) -> None:
    for key in ("user:1", "user:2", "user", b"user:3", ("user:4",), None, 5):
        tables.put("t", key_bytes(key), b"")
    assert tables.keys("t", "user:*") == [key_bytes("user:1"), key_bytes("user:2")]
    assert len(tables.keys("t", "*")) == 3


def test_an_empty_pattern_is_a_pattern(tables: StashTables) -> None:
    tables.put("t", A, b"1")
    assert tables.keys("t", "") == []
    tables.put("t", key_bytes(""), b"1")
    assert tables.keys("t", "") == [key_bytes("")]


def test_a_bad_pattern_is_refused_even_without_a_table(tables: StashTables) -> None:
    with pytest.raises(StashError):
        tables.keys("missing", "x" * 2000)


def test_info_counts_entries_and_bytes(tables: StashTables) -> None:
    tables.put("t", b"kk", b"vvv")
    tables.put("t", b"kk", b"v")
    tables.put("u", b"k", b"v")
    assert tables.info("t") == {"name": "t", "table": "t", "size": 1, "bytes": 3}
    assert tables.size_bytes == 5
    assert repr(tables) == "<StashTables 2 tables, 2 entries, 5 bytes>"


def test_the_tables_load_nothing_that_touches_the_world() -> None:
    module = sys.modules[StashTables.__module__]
    assert not {"os", "time", "threading", "asyncio", "socket", "random"} & set(vars(module))


class TablesModel(RuleBasedStateMachine):
    """Any sequence of operations, against dictionaries."""

    names = st.sampled_from(["t", "u"])
    keys = st.sampled_from([key_bytes(key) for key in (None, True, 1, 1.0, "1", "a", "ab", b"a", (), ("a", 1))])
    values = st.binary(max_size=9)

    def __init__(self) -> None:
        super().__init__()
        self.real = StashTables()
        self.model: dict[str, dict[bytes, bytes]] = {}

    @rule(name=names, key=keys, value=values)
    def put(self, name: str, key: bytes, value: bytes) -> None:
        self.real.put(name, key, value)
        self.model.setdefault(name, {})[key] = value

    @rule(name=names, key=keys, value=values)
    def setdefault(self, name: str, key: bytes, value: bytes) -> None:
        assert self.real.setdefault(name, key, value) == self.model.setdefault(name, {}).setdefault(key, value)

    @rule(name=names, key=keys)
    def pop(self, name: str, key: bytes) -> None:
        assert self.real.pop(name, key) == self.model.get(name, {}).pop(key, None)

    @rule(name=names, key=keys)
    def delete(self, name: str, key: bytes) -> None:
        assert self.real.delete(name, key) is (self.model.get(name, {}).pop(key, None) is not None)

    @rule(name=names)
    def clear(self, name: str) -> None:
        assert self.real.clear(name) == len(self.model.get(name, {}))
        if name in self.model:
            self.model[name].clear()

    @rule(name=names)
    def ensure(self, name: str) -> None:
        assert self.real.ensure(name) is (name not in self.model)
        self.model.setdefault(name, {})

    @rule(name=names)
    def delete_table(self, name: str) -> None:
        assert self.real.delete_table(name) is (self.model.pop(name, None) is not None)

    @rule(name=names, key=keys)
    def look(self, name: str, key: bytes) -> None:
        there = self.model.get(name, {})
        assert self.real.get(name, key) == there.get(key)
        assert self.real.exists(name, key) is (key in there)
        assert self.real.exists(name) is (name in self.model)

    @invariant()
    def the_tables_are_those_of_the_model(self) -> None:
        assert self.real.tables() == sorted(self.model)
        for name, there in self.model.items():
            assert self.real.items(name) == list(there.items())
            assert self.real.keys(name) == list(there)
            assert self.real.length(name) == len(there)

    @invariant()
    def every_byte_is_accounted_for(self) -> None:
        sizes = {name: sum(len(k) + len(v) for k, v in there.items()) for name, there in self.model.items()}
        assert {name: self.real.info(name)["bytes"] for name in self.model} == sizes
        assert self.real.size_bytes == sum(sizes.values())


TestTablesModel = TablesModel.TestCase
TestTablesModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
