from __future__ import annotations

import collections
import enum
import math
import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import EncodeError, RemoteProtocolError
from dirtybus.protocol import tlv
from tests.protocol.fuzz import mutants

_int64 = st.integers(-(2**63), 2**63 - 1)
_text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.one_of(st.none(), st.booleans(), _int64, st.floats(allow_nan=False), st.binary(), _text)
values = st.recursive(
    scalars
    | st.lists(_int64, min_size=14, max_size=300)
    | st.lists(st.floats(allow_nan=False), min_size=14, max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(_text, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_what_the_format_has_comes_back(value: object) -> None:
    back = tlv.decode(tlv.encode(value))
    assert back == value
    assert repr(back) == repr(value)


def test_the_bytes_are_those_of_the_format() -> None:
    assert tlv.encode(None) == b"\x00"
    assert tlv.encode(True) == b"\x01\x01"
    assert tlv.encode(-2) == b"\x05" + struct.pack(">q", -2)
    assert tlv.encode(1.5) == b"\x06" + struct.pack(">d", 1.5)
    assert tlv.encode(b"ab") == b"\x10\x00\x00\x00\x02ab"
    assert tlv.encode("é") == b"\x11\x00\x00\x00\x02\xc3\xa9"
    assert tlv.encode([None]) == b"\x20\x00\x00\x00\x01\x00"
    assert tlv.encode({"a": None}) == b"\x21\x00\x00\x00\x01\x11\x00\x00\x00\x01a\x00"


def test_the_format_turns_tuples_into_lists_and_keys_into_text() -> None:
    assert tlv.decode(tlv.encode((1, (2,)))) == [1, [2]]
    assert tlv.decode(tlv.encode({1: 2, None: 3, (4, 5): 6, b"k": 7})) == {"1": 2, "None": 3, "(4, 5)": 6, "b'k'": 7}
    assert tlv.encode({1: "int", "1": "str"})[:5] == b"\x21\x00\x00\x00\x02"
    assert tlv.decode(tlv.encode({1: "int", "1": "str"})) == {"1": "str"}


class Colour(enum.IntEnum):
    RED = 3


class Mode(enum.StrEnum):
    FAST = "fast"


class Point(NamedTuple):
    x: int
    y: int


def test_subclasses_are_written_as_their_base() -> None:
    odd = [Colour.RED, Mode.FAST, Point(1, 2), collections.OrderedDict(a=1), {Mode.FAST: 1, Colour.RED: 2}]
    assert tlv.decode(tlv.encode(odd)) == [3, "fast", [1, 2], {"a": 1}, {"fast": 1, "3": 2}]


class Sly(str):
    """Claims to be equal to any text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


def test_a_key_is_not_taken_for_another_that_it_claims_to_equal() -> None:
    assert tlv.decode(tlv.encode({"a": 1})) == {"a": 1}
    for name in ("b", "c"):
        assert tlv.decode(tlv.encode({Sly(name): 1})) == {name: 1}


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 255, 256, 257, 512, 600])
def test_lists_of_one_kind_of_number_are_written_as_any_other_list(count: int) -> None:
    for numbers in ([0.5] * count, [7] * count, [math.inf] * count, [-(2**63)] * count):
        expected = b"\x20" + struct.pack(">I", count) + b"".join(map(tlv.encode, numbers))
        assert tlv.encode(numbers) == expected
        assert tlv.decode(expected) == numbers


@pytest.mark.parametrize("odd", [True, None, Colour.RED, 1.5, "x", 2])
def test_one_odd_item_among_many_numbers_keeps_its_type(odd: Any) -> None:
    for number in (1, 1.5):
        for at in (0, 10, 19):
            items = [number] * 20
            items[at] = odd
            assert repr(tlv.decode(tlv.encode(items))) == repr([int(i) if i is Colour.RED else i for i in items])


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ([1, {"a": {1, 2}}], "value[1]['a']", "type set"),
        ({"x": [0, object()]}, "value['x'][1]", "type object"),
        ([bytearray(b"x")], "value[0]", "type bytearray"),
        ([memoryview(b"x")], "value[0]", "type memoryview"),
        ([1] * 20 + [2**63], "value[20]", "64 bits does not fit"),
        ([0, -(2**63) - 1], "value[1]", "does not fit"),
        ({"a": ["\ud800"]}, "value['a'][0]", "not valid Unicode"),
        ({"\ud800": 1}, "value['\\ud800']", "not valid Unicode"),
        (1j, "value", "type complex"),
        ([None] * (tlv.MAX_ITEMS + 1), "value", "1048577 items"),
        (dict.fromkeys(range(tlv.MAX_ITEMS + 1)), "value", "1048577 entries"),
        ({"b": b"x" * (tlv.MAX_STRING_BYTES + 1)}, "value['b']", "over the 67108864"),
        (["x" * (tlv.MAX_STRING_BYTES + 1)], "value[0]", "over the 67108864"),
    ],
    ids=lambda value: str(type(value)) if not isinstance(value, str) else value[:20],
)
def test_what_the_format_lacks_is_refused_with_type_and_place(value: object, place: str, words: str) -> None:
    with pytest.raises(EncodeError, match=words) as caught:
        tlv.encode(value)
    assert caught.value.place == place


def test_the_place_starts_at_the_root_that_is_given() -> None:
    with pytest.raises(EncodeError, match=r"^result\[0\]: cannot send a value of type set;"):
        tlv.encode([set()], root="result")


def test_a_circle_is_a_clear_error() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(EncodeError, match="nested too deep"):
        tlv.encode(circle)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off"),
        (b"\x01", "cut off"),
        (b"\x05\x00", "cut off"),
        (b"\x06" + bytes(7), "cut off"),
        (b"\x11\x00\x00", "cut off"),
        (b"\x11\x00\x00\x00\x05abc", "cut off"),
        (b"\x10\x00\x00\x00\x05abc", "cut off"),
        (b"\x20\x00\x00\x00\x02\x00", "cut off"),
        (b"\x20\x00\x10\x00\x00", "cut off"),
        (b"\x20\x00\x00\x00\x10" + b"\x06" * 100, "cut off"),
        (b"\x21\x00\x00\x00\x01\x11\x00\x00\x00\x01a", "cut off"),
        (b"\x21\x00\x00\x00\x01\x11\x00\x00\x00\x01a\x11\x00\x00\x00\x09a", "cut off"),
        (b"\x21\x00\x00\x00\x01\x05" + bytes(8) + b"\x00", "key must be text"),
        (b"\x00\x00", "1 bytes follow"),
        (b"\x11\x00\x00\x00\x01\xff", "not UTF-8"),
        (b"\x02", "unknown TLV type 0x02 at byte 0"),
        (b"\x20\x00\x00\x00\x01\xff", "unknown TLV type 0xff at byte 5"),
        (b"\x20\x00\x10\x00\x01", "over the limit"),
        (b"\x21\xff\xff\xff\xff", "over the limit"),
        (b"\x11\x04\x00\x00\x01", "over the limit"),
        (b"\x10\xff\xff\xff\xff", "over the limit"),
        (b"\x20\x00\x00\x00\x01" * 100_000, "nested too deep"),
        (b"\x21\x00\x00\x00\x01\x11\x00\x00\x00\x00" * 100_000, "nested too deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:12].hex(),
)
def test_malformed_bytes_are_the_peers_fault(data: bytes, words: str) -> None:
    for given_as in (data, bytearray(data), memoryview(data)):
        with pytest.raises(RemoteProtocolError, match=words):
            tlv.decode(given_as)


@given(values, st.data())
def test_a_value_that_is_cut_off_anywhere_is_refused(value: object, data: st.DataObject) -> None:
    whole = tlv.encode(value)
    with pytest.raises(RemoteProtocolError):
        tlv.decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_broken_bytes_give_a_value_or_one_typed_error() -> None:
    originals = [
        tlv.encode(value)
        for value in ({"a": [1, 2.5, None, True, b"x"], "b": {"c": "é"}}, [1.5] * 20, [7] * 300, ["x", {"y": []}] * 5)
    ]
    refused = 0
    for data in mutants(originals, 20_000, seed=5):
        try:
            tlv.decode(data)
        except RemoteProtocolError:
            refused += 1
    assert 5_000 < refused < 20_000
