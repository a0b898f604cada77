from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import StashError
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_entries import Cas, Get, Incr, Put
from dirtybus.stash.ops_parts import Add, PopItems, Push, Remove, Size
from dirtybus.stash.parts import ListValue, SetValue, as_list, as_set
from tests.stash.replay import check

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5) | st.binary(max_size=5)
K = b"k"


def part(value: object) -> bytes:
    return encode_whole(value)[1:]


@given(st.lists(scalars, max_size=20))
def test_a_list_comes_apart_and_together(items: list[Any]) -> None:
    body = encode_whole(items)
    apart = as_list(body, "here")
    assert list(apart.items) == [part(item) for item in items]
    assert apart.body() == body
    assert ListValue.of_parts(reversed([*apart.parts()])).body() == body
    assert ListValue.of_parts(apart.parts()).start == (apart.start if items else 2**63)


@given(st.sets(scalars, max_size=20))
def test_a_set_comes_apart_and_together(members: set[Any]) -> None:
    apart = as_set(encode_whole(members), "here")
    assert len(apart) == len(members)
    assert decode_body(apart.body()) == members
    assert decode_body(SetValue.of_parts(apart.parts()).body()) == members


@pytest.mark.parametrize("count", [0, 15, 16, 2**16 - 1, 2**16])
def test_lists_and_sets_of_all_sizes_are_written_as_the_codec_does(count: int) -> None:
    items = list(range(count))
    assert as_list(encode_whole(items), "here").body() == encode_whole(items)
    assert decode_body(as_set(encode_whole(set(items)), "here").body()) == set(items)


def test_an_item_keeps_its_position_while_others_come_and_go() -> None:
    some = ListValue()
    some.push([b"b", b"c"])
    places = {item: place for place, item in some.parts()}
    some.push([b"a", b"z"], left=True)
    assert list(some.items) == [b"z", b"a", b"b", b"c"]
    taken, gone = some.pop(1)
    assert (taken, gone) == ([b"z"], [place for place, item in ListValue([b"z"], 2**63 - 2).parts() if item == b"z"])
    taken, gone = some.pop(1, left=False)
    assert (taken, gone) == ([b"c"], [places[b"c"]])
    assert {item: place for place, item in some.parts()}[b"b"] == places[b"b"]


def test_large_arrays_in_a_list_are_taken_apart_too() -> None:
    numpy = pytest.importorskip("numpy")
    body = b"".join(encode_whole([numpy.zeros(100_000), 1]) for _ in range(1))
    apart = as_list(body, "here")
    assert len(apart) == 2
    assert (decode_body(apart.body())[0] == 0).all()


@pytest.mark.parametrize("value", [1, "text", {"a": 1}, (1, 2), {1}, None])
def test_what_is_no_list_is_refused_by_its_place(tables: StashTables, value: object) -> None:
    Put("t", K, encode_whole(value)).apply(tables, 0)
    for op in (Push("t", K, (b"\x01",)), PopItems("t", K)):
        with pytest.raises(StashError, match="in table 't' is no list"):
            op.apply(tables, 0)


def test_a_list_is_no_set_and_a_set_no_list(tables: StashTables) -> None:
    Push("t", K, (b"\x01",)).apply(tables, 0)
    with pytest.raises(StashError, match="is a list, not a set"):
        Add("t", K, (b"\x01",)).apply(tables, 0)
    with pytest.raises(StashError, match="cannot be added to: it is list"):
        Incr("t", K, 1).apply(tables, 0)
    Add("t", b"s", (b"\x01",)).apply(tables, 0)
    with pytest.raises(StashError, match="is a set, not a list"):
        PopItems("t", b"s").apply(tables, 0)


def test_items_come_from_both_ends(tables: StashTables) -> None:
    assert Push("t", K, (part(1), part(2))).apply(tables, 0).count == 2
    assert Push("t", K, (part(3), part(4)), is_left=True).apply(tables, 0).count == 4
    assert value_of(Get("t", K).apply(tables, 0)) == [4, 3, 1, 2]
    assert value_of(PopItems("t", K, 2).apply(tables, 0)) == [4, 3]
    assert value_of(PopItems("t", K, 9, is_left=False).apply(tables, 0)) == [2, 1]
    assert not PopItems("t", K).apply(tables, 0).is_true
    assert value_of(Get("t", K).apply(tables, 0)) == []
    check(tables)


def test_a_member_is_there_once(tables: StashTables) -> None:
    assert Add("t", K, (part(1), part(1), part(2))).apply(tables, 0).count == 2
    again = Add("t", K, (part(2), part(3), part(3))).apply(tables, 0)
    assert (again.is_true, again.count) == (True, 1)
    assert Size("t", K).apply(tables, 0).count == 3
    assert not Add("t", K, (part(3),)).apply(tables, 0).is_true
    assert Remove("t", K, (part(1), part(1), part(9))).apply(tables, 0).count == 1
    assert value_of(Get("t", K).apply(tables, 0)) == {2, 3}
    check(tables)


def test_sets_are_compared_by_their_members_not_by_their_order(tables: StashTables) -> None:
    names = [f"m{number}" for number in range(20)]
    Add("t", K, tuple(part(name) for name in names)).apply(tables, 0)
    other = as_set(encode_whole(set()), "here")
    other.add(part(name) for name in reversed(names))
    assert other.body() != Get("t", K).apply(tables, 0).value
    assert Cas("t", K, other.body(), encode_whole(1)).apply(tables, 0).is_true


def value_of(reply: StashReply) -> Any:
    assert reply.value is not None
    return decode_body(reply.value)
