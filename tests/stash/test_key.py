from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import EncodeError, StashError
from dirtybus.protocol.codec import decode_body
from dirtybus.stash.key import key_bytes, key_text

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
)
keys = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def shape(key: Any) -> Any:
    """Return the key with its types, so that equality is that of the stash."""
    return (tuple, tuple(shape(part) for part in key)) if isinstance(key, tuple) else (type(key), key)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Box:
    inside: Any
    kinds: ClassVar[frozenset[str]] = frozenset({"of the class, so no part of the key"})


@given(keys, keys)
def test_two_keys_are_the_same_exactly_when_equal_and_of_the_same_types(one: Any, two: Any) -> None:
    assert (key_bytes(one) == key_bytes(two)) is (shape(one) == shape(two))


@given(keys)
def test_a_key_comes_back_as_it_is(key: Any) -> None:
    assert shape(decode_body(key_bytes(key))) == shape(key)


def test_none_true_one_and_its_spellings_are_different_keys() -> None:
    assert len({key_bytes(key) for key in (None, True, 1, 1.0, "1", b"1", (1,), "", b"", (), False, 0)}) == 12


@pytest.mark.parametrize(
    ("minus", "plus"),
    [
        (-0.0, 0.0),
        (complex(-0.0, 1.0), complex(0.0, 1.0)),
        (complex(1.0, -0.0), complex(1.0, 0.0)),
        ((1, -0.0), (1, 0.0)),
        ((1, (-0.0, "a")), (1, (0.0, "a"))),
    ],
)
def test_minus_zero_is_the_same_key_as_zero(minus: object, plus: object) -> None:
    assert key_bytes(minus) == key_bytes(plus)


@pytest.mark.parametrize("key", [[1], {"a": 1}, bytearray(b"a"), (1, ["x"])])
def test_what_cannot_be_hashed_is_no_key(key: object) -> None:
    with pytest.raises(StashError, match=r"must be hashable.*use a tuple"):
        key_bytes(key)


@pytest.mark.parametrize("key", [{1, 2}, frozenset({"a"}), ("a", frozenset()), Box(frozenset({"b"}))])
def test_a_set_is_no_key_as_its_order_differs_between_processes(key: object) -> None:
    with pytest.raises(StashError, match=r"use tuple\(sorted\("):
        key_bytes(key)


@pytest.mark.parametrize("key", [math.nan, (1, math.nan), complex(math.nan, 0), Decimal("NaN"), Point(0, math.nan)])
def test_what_is_not_equal_to_itself_is_no_key(key: object) -> None:
    with pytest.raises(StashError, match="not equal to itself"):
        key_bytes(key)


def test_the_error_says_where_in_the_key() -> None:
    with pytest.raises(StashError, match=r"^key\[1\]\[0\]:"):
        key_bytes((1, (math.nan,)))
    with pytest.raises(StashError, match=r"^key\.inside\[1\]:"):
        key_bytes(Box((1, math.nan)))


def test_a_frozen_dataclass_is_a_key_like_its_equals() -> None:
    assert key_bytes(Box(("a", 1))) == key_bytes(Box(("a", 1)))
    assert key_bytes(Box(1)) != key_bytes(Box(True))


def test_what_cannot_be_sent_is_no_key() -> None:
    with pytest.raises(EncodeError, match="key"):
        key_bytes(object())


def test_a_key_too_deep_is_refused_without_running_out_of_stack() -> None:
    key: Any = ()
    for _ in range(100_000):
        key = (key,)
    with pytest.raises(EncodeError):
        key_bytes(key)
    while key:  # taken apart by hand: freeing it at once recurses in C
        (key,) = key


def test_only_a_str_key_has_a_text() -> None:
    assert key_text(key_bytes("user:1")) == "user:1"
    assert key_text(key_bytes("\ud800")) == "\ud800"
    assert [key_text(key_bytes(key)) for key in (None, 1, b"a", ("a",), Box("a"))] == [None] * 5


def test_bytes_that_are_no_key_have_no_text() -> None:
    assert key_text(b"") is None
    assert key_text(b"\xff\xff\xff") is None
