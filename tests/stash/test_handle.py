from __future__ import annotations

import asyncio
import enum
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dirtybus.errors import DirtyError, EncodeError, StashError, StashTableNotFoundError
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_entries import Incr
from dirtybus.stash.ops_many import Length
from tests.stash.conftest import CountingPort


@dataclass
class Session:
    name: str


def test_a_value_comes_back_equal_and_of_its_type(handle: Stash) -> None:
    for value in (None, True, 1, 1.0, "1", b"1", [1], (1,), {1}, {1: "a", "1": "b"}, 2**70, Session("Ada")):
        handle.put("t", "k", value)
        found = handle.get("t", "k")
        assert (type(found), found) == (type(value), value)


def test_a_missing_key_gives_the_default(handle: Stash) -> None:
    assert handle.get("t", "k") is None
    assert handle.get("t", "k", 7) == 7
    handle.put("t", "other", 1)
    assert handle.get("t", "k", 7) == 7


def test_a_stored_none_is_a_value_and_no_default(handle: Stash) -> None:
    handle.put("t", "k", None)
    assert handle.get("t", "k", 7) is None
    assert handle.exists("t", "k")
    assert handle.setdefault("t", "k", 7) is None
    assert handle.pop("t", "k", 7) is None
    assert handle.pop("t", "k", 7) == 7


def test_none_is_a_key_like_any_other(handle: Stash) -> None:
    handle.ensure("t")
    assert not handle.exists("t", None)
    handle.put("t", None, "nothing's")
    assert handle.exists("t", None)
    assert handle.get("t", None) == "nothing's"
    assert handle.keys("t") == [None]
    assert handle.delete("t", None)


def test_equal_keys_of_other_types_are_other_keys(handle: Stash) -> None:
    for key in (1, True, 1.0, "1", b"1", (1,), (True,)):
        handle.put("t", key, repr(key))
    assert [(type(key), value) for key, value in handle.items("t")] == [
        (int, "1"), (bool, "True"), (float, "1.0"), (str, "'1'"), (bytes, "b'1'"), (tuple, "(1,)"), (tuple, "(True,)"),
    ]  # fmt: skip


def test_what_one_gets_is_ones_own_copy(handle: Stash) -> None:
    handle.put("t", "k", mine := [1])
    mine.append(2)
    handle.get("t", "k").append(3)
    assert handle.get("t", "k") == [1]


def test_an_array_from_the_stash_can_be_written_without_changing_what_is_stored(handle: Stash) -> None:
    numpy = pytest.importorskip("numpy")
    for size in (4, 100_000):
        handle.put("t", "k", numpy.zeros(size))
        found = handle.get("t", "k")
        found[0] = 1
        assert handle.get("t", "k")[0] == 0


def test_exists_without_a_key_asks_for_the_table(handle: Stash) -> None:
    assert not handle.exists("t")
    handle.ensure("t")
    assert handle.exists("t")


def test_the_answers_of_functions_that_change_something(handle: Stash) -> None:
    assert [handle.ensure("t"), handle.ensure("t")] == [True, False]
    assert handle.setdefault("t", "k", 1) == 1
    assert handle.setdefault("t", "k", 2) == 1
    assert handle.length("t") == 1
    assert [handle.delete("t", "k"), handle.delete("t", "k")] == [True, False]
    handle.put("t", "k", 1)
    assert [handle.clear("t"), handle.clear("t"), handle.clear("missing")] == [1, 0, 0]
    assert [handle.delete_table("t"), handle.delete_table("t")] == [True, False]


def test_keys_take_a_pattern(handle: Stash) -> None:
    for key in ("user:1", "user:2", "cache:1", 5):
        handle.put("t", key, 0)
    assert handle.keys("t", "user:*") == handle.keys("t", pattern="user:?") == ["user:1", "user:2"]
    assert handle.keys("t") == ["user:1", "user:2", "cache:1", 5]
    assert handle.keys("missing") == []


def test_info_tells_the_size_and_raises_for_a_missing_table(handle: Stash) -> None:
    with pytest.raises(StashTableNotFoundError) as caught:
        handle.info("t")
    assert caught.value.table_name == "t"
    handle.put("t", "k", "v")
    found = handle.info("t")
    assert (found["name"], found["table"], found["size"]) == ("t", "t", 1)
    assert found["bytes"] > 0


def test_tables_are_listed_by_name(handle: Stash) -> None:
    handle.ensure("b")
    handle.put("a", 1, 1)
    assert handle.tables() == ["a", "b"]


@pytest.mark.parametrize("name", [None, 5, b"t", ("t",)])
def test_a_table_is_named_by_a_str(handle: Stash, name: Any) -> None:
    with pytest.raises(StashError, match="a table name in the stash is a str, not"):
        handle.put(name, "k", 1)


def test_a_name_or_pattern_that_is_no_unicode_is_refused_before_it_is_asked(handle: Stash, port: CountingPort) -> None:
    with pytest.raises(StashError, match="a table name in the stash must be valid Unicode"):
        handle.ensure("\ud800")
    with pytest.raises(StashError, match="a key pattern in the stash must be valid Unicode"):
        handle.keys("t", "\ud800*")
    with pytest.raises(StashError, match="a key pattern in the stash is a str"):
        handle.keys("t", b"*")  # type: ignore[arg-type]
    assert port.verbs == []


def test_a_table_may_be_named_by_an_enum_of_names(handle: Stash, keeper: Keeper) -> None:
    class Name(enum.StrEnum):
        SESSIONS = "sessions"

    handle.put(Name.SESSIONS, "k", 1)
    assert handle.get("sessions", "k") == 1
    assert [type(name) for name in keeper.state.tables.names()] == [str]


def test_a_value_that_cannot_be_sent_stores_nothing(handle: Stash, keeper: Keeper) -> None:
    with pytest.raises(EncodeError, match="value") as caught:
        handle.put("t", "k", {"a": [object()]})
    assert caught.value.place.startswith("value")
    assert keeper.state.tables.names() == []


def test_a_class_is_found_by_the_resolver_that_was_given(port: CountingPort) -> None:
    asked: list[tuple[str, str]] = []

    def resolve(module: str, qualname: str) -> type:
        asked.append((module, qualname))
        return Session

    handle = Stash(port, resolve=resolve)
    handle.put("t", "k", Session("Ada"))
    reads: list[Callable[[], object]] = [
        lambda: handle.get("t", "k"),
        lambda: handle.items("t"),
        lambda: handle.pop("t", "k"),
        lambda: handle.setdefault("t", "k", Session("Eve")),
    ]
    for number, read in enumerate(reads, 1):
        read()
        assert asked == [(Session.__module__, "Session")] * number


def test_every_function_is_one_round_trip(handle: Stash, port: CountingPort) -> None:
    handle.put("t", "k", 1)
    calls: list[Callable[[], object]] = [
        lambda: handle.get("t", "k"),
        lambda: handle.setdefault("t", "k", 1),
        lambda: handle.exists("t"),
        lambda: handle.items("t"),
        lambda: handle.keys("t"),
        lambda: handle.length("t"),
        lambda: handle.pop("t", "k"),
    ]
    for call in calls:
        port.verbs.clear()
        call()
        assert len(port.verbs) == 1
    port.verbs.clear()
    handle.table("t")
    assert port.verbs == []


def test_both_handles_have_the_same_functions_with_the_same_arguments() -> None:
    def functions(cls: type) -> dict[str, list[tuple[str, object]]]:
        found = {name: function for name, function in vars(cls).items() if not name.startswith("_")}
        return {
            name: [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
            for name, function in found.items()
        }

    assert functions(Stash) == functions(AsyncStash)


async def test_the_async_handle_does_what_the_blocking_one_does(async_handle: AsyncStash) -> None:
    stash = async_handle
    await stash.put("t", "k", {"a": (1, 2)})
    assert await stash.get("t", "k") == {"a": (1, 2)}
    assert await stash.get("t", "missing", 7) == 7
    assert await stash.exists("t", "k")
    assert await stash.exists("t")
    assert not await stash.exists("t", None)
    assert await stash.setdefault("t", None, "n") == "n"
    assert await stash.keys("t", "k*") == ["k"]
    assert await stash.items("t") == [("k", {"a": (1, 2)}), (None, "n")]
    assert await stash.length("t") == (await stash.info("t"))["size"] == 2
    assert await stash.pop("t", None) == "n"
    assert await stash.delete("t", "k")
    assert await stash.clear("t") == 0
    assert await stash.ensure("u")
    assert await stash.tables() == ["t", "u"]
    assert await stash.delete_table("u")
    with pytest.raises(StashTableNotFoundError):
        await stash.info("u")


async def test_both_local_ports_reach_the_same_tables(keeper: Keeper) -> None:
    port = LocalPort(keeper)
    Stash(port).put("t", "k", 1)
    assert await AsyncStash(AsyncLocalPort(port)).get("t", "k") == 1


def test_the_local_port_raises_what_the_tables_refuse(handle: Stash, keeper: Keeper) -> None:
    handle.put("t", "k", "text")
    with pytest.raises(StashError, match="cannot be added to: it is str"):
        LocalPort(keeper).ask(Incr("t", key_bytes("k"), 1))


def test_two_threads_are_never_in_the_tables_at_once() -> None:
    inside = threading.Barrier(2)
    met: list[bool] = []

    class MeetingLength(Length, frozen=True):
        def apply(self, tables: StashTables, now: float) -> StashReply:
            try:
                inside.wait(0.2)
            except threading.BrokenBarrierError:
                return super().apply(tables, now)
            met.append(True)
            return super().apply(tables, now)

    port = LocalPort(Keeper())
    threads = [threading.Thread(target=port.ask, args=(MeetingLength("t"),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert met == []


async def test_of_many_that_pop_one_key_one_gets_it(async_handle: AsyncStash) -> None:
    await async_handle.put("t", "job", "work")
    got = await asyncio.gather(*(async_handle.pop("t", "job", "none") for _ in range(20)))
    assert sorted(got) == ["none"] * 19 + ["work"]


def test_every_error_of_the_stash_is_one_of_ours() -> None:
    assert issubclass(StashError, DirtyError)
