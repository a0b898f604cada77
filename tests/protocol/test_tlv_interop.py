from __future__ import annotations

import collections
import enum
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.errors import EncodeError, RemoteProtocolError
from dirtybus.protocol import tlv
from tests.protocol.fuzz import mutants

pytestmark = pytest.mark.interop
pytest.importorskip("gunicorn.dirty.tlv")

from gunicorn.dirty.errors import DirtyProtocolError  # noqa: E402 - after the skip
from gunicorn.dirty.tlv import TLVEncoder  # noqa: E402


class Colour(enum.IntEnum):
    RED = 3


class Mode(enum.StrEnum):
    FAST = "fast"


class Odd(str):
    __slots__ = ()


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.binary(max_size=30),
    st.text(st.characters(codec=None), max_size=20),
    st.sampled_from([Colour.RED, Mode.FAST, Odd("odd"), bytearray(b"x"), 1j, {1}, range(2)]),
)
_keys = st.one_of(
    st.text(max_size=80), st.integers(), st.none(), st.booleans(), st.sampled_from([Colour.RED, Mode.FAST, (1, 2)])
)
_values = st.recursive(
    _scalars
    | st.lists(st.floats(), min_size=15, max_size=300)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=15),
    lambda inner: st.one_of(
        st.lists(inner, max_size=20),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(_keys, inner, max_size=5),
        st.dictionaries(_keys, inner, max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=20,
)


def theirs(value: object) -> bytes | None:
    try:
        return bytes(TLVEncoder.encode(value))
    except (DirtyProtocolError, struct.error, UnicodeEncodeError):
        return None


@given(_values)
def test_every_value_gives_gunicorns_bytes_or_is_refused_by_both(value: object) -> None:
    expected = theirs(value)
    if expected is None:
        with pytest.raises(EncodeError):
            tlv.encode(value)
        return
    assert tlv.encode(value) == expected
    assert repr(tlv.decode(expected)) == repr(TLVEncoder.decode_full(expected))


def read_by_both(data: bytes) -> tuple[Any, Any]:
    try:
        expected = repr(TLVEncoder.decode_full(data))
    except (DirtyProtocolError, RecursionError):
        expected = "refused"
    try:
        return expected, repr(tlv.decode(data))
    except RemoteProtocolError:
        return expected, "refused"


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_gunicorn_reads_them(data: bytes) -> None:
    expected, ours = read_by_both(data)
    assert ours == expected


def test_broken_bytes_are_read_as_gunicorn_reads_them() -> None:
    originals = [
        TLVEncoder.encode(value)
        for value in ({"a": [1, 2.5, None, True, b"x"], "b": {"c": "é"}}, [1.5] * 18, [7] * 20, ["x", {"y": []}] * 3)
    ]
    for data in mutants(originals, 6_000, seed=6):
        expected, ours = read_by_both(data)
        assert ours == expected, data.hex()


def test_nesting_that_gunicorn_writes_is_written_and_read() -> None:
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    assert tlv.encode(value) == TLVEncoder.encode(value)
    assert tlv.decode(tlv.encode(value)) == value
