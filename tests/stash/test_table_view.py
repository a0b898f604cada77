from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dirtybus.errors import StashError, StashKeyNotFoundError
from dirtybus.stash import AsyncStash, AsyncStashTable, LocalPort, Stash, StashTable
from dirtybus.stash.keeper import Keeper
from tests.stash.conftest import CountingPort


@pytest.fixture
def table(handle: Stash) -> StashTable:
    return handle.table("t")


@pytest.fixture
def async_table(async_handle: AsyncStash) -> AsyncStashTable:
    return async_handle.table("t")


def test_a_view_is_a_mutable_mapping_and_knows_its_name(table: StashTable) -> None:
    assert isinstance(table, MutableMapping)
    assert table.name == "t"


def test_a_view_makes_no_table_and_sees_a_missing_one_as_empty(table: StashTable, keeper: Keeper) -> None:
    assert len(table) == 0
    assert not table
    assert list(table) == list(table.items()) == list(table.values()) == []
    assert "k" not in table
    table.clear()
    assert keeper.state.tables.names() == []


def test_a_missing_key_is_a_key_error_that_carries_table_and_key(table: StashTable) -> None:
    with pytest.raises(KeyError) as caught:
        table[("a", 1)]
    error = caught.value
    assert isinstance(error, StashKeyNotFoundError)
    assert (error.table_name, error.key) == ("t", ("a", 1))
    with pytest.raises(StashKeyNotFoundError):
        del table["k"]
    with pytest.raises(StashKeyNotFoundError):
        table.pop("k")
    with pytest.raises(KeyError):
        table.popitem()


def test_a_stored_none_is_present(table: StashTable) -> None:
    table["k"] = None
    assert "k" in table
    assert table["k"] is None
    assert table.get("k", 7) is None
    assert table.pop("k", 7) is None
    assert table.pop("k", 7) == 7
    assert table.pop("k", None) is None


def test_two_views_show_the_same_entries(handle: Stash, table: StashTable) -> None:
    table["k"] = 1
    assert handle.table("t")["k"] == 1
    assert handle.table("t") == table == {"k": 1}
    assert handle.table("other") != table


def test_an_iteration_goes_over_the_entries_as_they_were_at_its_start(table: StashTable) -> None:
    table.update(a=1, b=2)
    for key in table:
        table[f"{key}'"] = 0
        del table[key]
    assert sorted(table) == ["a'", "b'"]


def test_keys_take_a_pattern(table: StashTable) -> None:
    table.update({"user:1": 1, "user:2": 2, "cache": 3, 4: 4})
    found = table.keys("user:*")
    assert list(found) == ["user:1", "user:2"]
    assert len(found) == 2
    assert "user:1" in found
    assert "cache" not in found
    assert found & {"user:1", "cache"} == {"user:1"}
    assert table.keys() == {"user:1", "user:2", "cache", 4}


def test_views_of_the_view_follow_the_table(table: StashTable) -> None:
    keys, items, values = table.keys(), table.items(), table.values()
    table["k"] = [1]
    assert (list(keys), list(items), list(values)) == (["k"], [("k", [1])], [[1]])
    assert (len(keys), len(items), len(values)) == (1, 1, 1)
    assert [1] in values
    assert [2] not in values
    assert ("k", [1]) in items
    assert ("k", [2]) not in items


def test_a_whole_look_is_one_round_trip(table: StashTable, port: CountingPort) -> None:
    table.update({number: number for number in range(50)})
    port.verbs.clear()
    assert dict(table.items()) == {number: number for number in range(50)}
    assert {*table.values()} == {*table.keys()} == {*table} == {*range(50)}
    assert 49 in table.values()
    assert (49, 49) in table.items()
    assert 49 in table
    assert table.pop(7) == 7
    assert table.setdefault(7, 8) == 8
    assert port.verbs == ["page", "page", "page", "page", "page", "get", "exists", "pop", "setdefault"]


def test_a_repr_asks_nothing(table: StashTable, port: CountingPort) -> None:
    assert repr(table) == "<StashTable 't'>"
    assert port.verbs == []


def test_a_key_that_cannot_be_one_is_refused_everywhere(table: StashTable) -> None:
    with pytest.raises(StashError, match="hashable"):
        table[[1]] = 1
    with pytest.raises(StashError, match="hashable"):
        assert [1] not in table


class MappingModel(RuleBasedStateMachine):
    """Any sequence of mapping operations, against a dict whose keys carry their types."""

    keys = st.sampled_from(
        [None, True, False, 0, 1, 1.0, 0.0, -0.0, "", "1", "a", b"a", (), (1,), (True,), ("a", None)]
    )
    values = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.booleans(), max_size=2)

    def __init__(self) -> None:
        super().__init__()
        self.table = Stash(LocalPort(Keeper())).table("t")
        self.model: dict[str, tuple[Any, Any]] = {}

    @staticmethod
    def typed(key: Any) -> str:
        return repr(key).replace("-0.0", "0.0")

    @rule(key=keys, value=values)
    def store(self, key: Any, value: Any) -> None:
        self.table[key] = value
        self.model[self.typed(key)] = (key, value)

    @rule(key=keys, value=values)
    def setdefault(self, key: Any, value: Any) -> None:
        assert self.table.setdefault(key, value) == self.model.setdefault(self.typed(key), (key, value))[1]

    @rule(key=keys)
    def remove(self, key: Any) -> None:
        if self.model.pop(self.typed(key), None) is None:
            with pytest.raises(KeyError):
                del self.table[key]
        else:
            del self.table[key]

    @rule(key=keys, default=values)
    def pop(self, key: Any, default: Any) -> None:
        assert self.table.pop(key, default) == self.model.pop(self.typed(key), (key, default))[1]

    @rule()
    def popitem(self) -> None:
        if self.model:
            key, value = self.table.popitem()
            assert self.model.pop(self.typed(key))[1] == value

    @rule(entries=st.dictionaries(st.text("ab", max_size=1), values, max_size=3))
    def update(self, entries: dict[str, Any]) -> None:
        self.table.update(entries)
        self.model.update({self.typed(key): (key, value) for key, value in entries.items()})

    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.model.clear()

    @rule(key=keys, default=values)
    def look(self, key: Any, default: Any) -> None:
        assert (key in self.table) is (self.typed(key) in self.model)
        assert self.table.get(key, default) == self.model.get(self.typed(key), (key, default))[1]

    @invariant()
    def both_hold_the_same(self) -> None:
        assert len(self.table) == len(self.model)
        assert [(self.typed(key), value) for key, value in self.table.items()] == [
            (name, value) for name, (_, value) in self.model.items()
        ]
        assert [self.typed(key) for key in self.table] == list(self.model)
        assert list(self.table.values()) == [value for _, value in self.model.values()]


TestMappingModel = MappingModel.TestCase
TestMappingModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# --- for tasks ----------------------------------------------------------------------------------------------------


async def test_the_async_view_has_the_same_entries_and_errors(async_table: AsyncStashTable) -> None:
    table = async_table
    assert (table.name, repr(table)) == ("t", "<AsyncStashTable 't'>")
    await table.put("a", 1)
    await table.update({"b": None, None: 3})
    assert await table["a"] == 1
    assert await table["b"] is None
    assert await table.get("missing", 7) == 7
    assert await table.exists("b")
    assert await table.length() == 3
    assert await table.keys() == [key async for key in table] == ["a", "b", None]
    assert await table.keys("?") == ["a", "b"]
    assert await table.items() == [("a", 1), ("b", None), (None, 3)]
    assert await table.values() == [1, None, 3]
    assert await table.setdefault("b", 5) is None
    assert await table.pop("b") is None
    assert await table.pop("b", 5) == 5
    await table.delete("a")
    await table.clear()
    assert await table.length() == 0


async def test_a_missing_key_raises_in_the_async_view(async_table: AsyncStashTable) -> None:
    with pytest.raises(StashKeyNotFoundError) as caught:
        await async_table["k"]
    assert (caught.value.table_name, caught.value.key) == ("t", "k")
    assert await async_table.delete("k") is False
    with pytest.raises(KeyError):
        await async_table.pop("k")


def test_a_view_has_every_function_of_the_stash(table: StashTable, port: CountingPort) -> None:
    table.update({"a": 1}, b=2)
    table |= {"c": 3}
    assert dict(table.items()) == {"a": 1, "b": 2, "c": 3} == table
    assert table.incr("a", 4) == 5
    assert table.decr("a") == 4
    assert table.cas("a", 4, 7)
    assert table.get_many(["a", "x"]) == {"a": 7}
    assert table.delete_many(["a", "x"]) == 1
    version = table.put("d", 4, expires_in=50)
    assert table.get_with_version("d") == (4, version)
    assert 49 < (table.ttl("d") or 0) <= 50
    assert table.touch("d", 100)
    assert table.push("l", 1, 2, 3) == 3
    assert (table.pop_left("l"), table.pop_right("l"), table.pop_many("l", 5)) == (1, 3, [2])
    assert (table.add("s", 1, 1), table.remove("s", 1), table.size("s")) == (1, 1, 0)
    assert table.info()["name"] == "t"
    port.verbs.clear()
    table.update((number, number) for number in range(2500))
    assert port.verbs == ["put_many"] * 3
    found, _ = table.scan(count=10)
    assert len(found) == 10


def test_popitem_takes_each_entry_once_until_there_is_none(table: StashTable) -> None:
    table.update({number: str(number) for number in range(30)})
    assert {table.popitem() for _ in range(30)} == {(number, str(number)) for number in range(30)}
    with pytest.raises(KeyError):
        table.popitem()


async def test_the_async_view_has_them_too(async_table: AsyncStashTable) -> None:
    await async_table.update({"a": 1, "b": 2})
    assert await async_table.incr("a") == 2
    assert [key async for key in async_table] == ["a", "b"]
    assert await async_table.push("l", "x") == 1
    assert await async_table.pop_left("l") == "x"
    assert await async_table.get_many(["a", "b", "c"]) == {"a": 2, "b": 2}
