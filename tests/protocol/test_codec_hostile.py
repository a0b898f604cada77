from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext

from dirtybus.errors import DecodeError, RemoteProtocolError
from dirtybus.protocol.codec import MAX_DEPTH, decode_body, encode_body
from dirtybus.protocol.codec_leaves import Code
from tests.protocol.fuzz import mutants
from tests.protocol.specimens import ONE_OF_EACH, Frozen, Right, joined, values

encode = msgspec.msgpack.Encoder().encode


def body_of(code: int, plain: object) -> bytes:
    return b"\x00" + encode(Ext(code, encode(plain)))


def with_buffers(message: bytes, *lengths: int, rest: bytes = b"", count: int | None = None) -> bytes:
    counted = len(lengths) if count is None else count
    return struct.pack(f">B3xIQ{len(lengths)}Q", 1, counted, len(message), *lengths) + message + rest


@contextmanager
def at_most(limit_bytes: int) -> Iterator[None]:
    """Hold what runs inside to a peak of new memory."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= limit_bytes


def attempt(body: bytes) -> str:
    try:
        decode_body(body)
    except (RemoteProtocolError, DecodeError) as refused:
        return type(refused).__name__
    return "value"


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_one_of_two_errors(data: bytes) -> None:
    for body in (data, b"\x00" + data, b"\x01\x00\x00\x00" + data):
        attempt(body)


@given(values, st.data())
def test_a_body_that_is_cut_off_anywhere_is_refused(value: object, data: st.DataObject) -> None:
    body = joined(encode_body(value))
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError):
        decode_body(body[:end])
    with pytest.raises(RemoteProtocolError):
        decode_body(body + b"\xc0")


_bodies = [joined(encode_body(value)) for value in ONE_OF_EACH if getattr(value, "nbytes", 0) < 2000]
_bodies += [joined(encode_body({"a": [value, (value,)]})) for value in ONE_OF_EACH[:40]]


def test_twenty_thousand_broken_bodies_give_values_or_typed_errors() -> None:
    outcomes = [attempt(body) for body in mutants(_bodies, 20_000, seed=1)]
    assert outcomes.count("RemoteProtocolError") > 5_000
    assert "value" in outcomes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_thousand_broken_bodies_give_values_or_typed_errors() -> None:
    for body in mutants(_bodies, 200_000, seed=2):
        attempt(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02\xc0",
        b"\x00",
        b"\x00\xc1",
        b"\x00\xc0\xc0",
        b"\x00\xd9\x01\xff",
        b"\x00\x81\x80\xc0",
        body_of(99, None),
        body_of(Code.TUPLE, None),
        body_of(Code.TUPLE, {"a": 1}),
        body_of(Code.SET, [[1]]),
        body_of(Code.FROZENSET, "ab"),
        body_of(Code.PAIRS, [[1, 1], [2, 3]]),
        body_of(Code.PAIRS, [[1], []]),
        body_of(Code.PAIRS, [[[]], [1]]),
        body_of(Code.NAMED_TUPLE, ["tests"]),
        body_of(Code.DATACLASS, [1, 2, {}]),
        body_of(Code.ENUM, [None, None, None]),
        body_of(Code.RANGE, [0, 1, 0]),
        body_of(Code.RANGE, [0.5, 1, 1]),
        body_of(Code.SLICE, [1]),
        body_of(Code.BYTES, 0),
        body_of(Code.BYTEARRAY, -1),
        body_of(Code.INT, "9" * 100),
        body_of(Code.STR, b"\xff"),
        body_of(Code.COMPLEX, [1, 2]),
        body_of(Code.DATE, [2023, 2, 29]),
        body_of(Code.DATE, [b"\x07\xe7\xff\x01"]),
        body_of(Code.TIME, [24, 0, 0, 0, 0, None]),
        body_of(Code.TIME, [b"\x18\x00\x00\x00\x00\x00"]),
        body_of(Code.DATETIME, [b"\x07\xe4\x01\xff\xff\xff\xff\xff\xff\xff", 0, None]),
        body_of(Code.DATETIME, [2024, 1, 1, 0, 0, 0, 0, 2, None]),
        body_of(Code.DATETIME, [2024, 1, 1, 0, 0, 0, 0, 0, [10**6, 0, 0]]),
        body_of(Code.TIMEDELTA, [10**12, 0, 0]),
        body_of(Code.TIMEZONE, [2, 0, 0]),
        body_of(Code.TIMEZONE, "x"),
        body_of(Code.DECIMAL, "12 apples"),
        body_of(Code.DECIMAL, 5),
        body_of(Code.UUID, b"short"),
        body_of(Code.PATH, [9, b"x"]),
        body_of(Code.PATH, [-1, b"x"]),
        with_buffers(b"\xc0"),
        with_buffers(b"\xc0", count=2**32 - 1),
        with_buffers(b"\xc0", 2**64 - 1),
        with_buffers(b"\xc0", 5, rest=b"\0" * 4),
        with_buffers(b"\xc0", 5, rest=b"\0" * 500),
        b"\x01\x00\x00",
    ],
    ids=lambda body: body[:24].hex(),
)
def test_malformed_bodies_are_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_body(body)


def array_body(dtype: object, *shape: object, items: bytes = b"", order: object = "C") -> bytes:
    return body_of(Code.ARRAY, [[dtype, order, *shape], items])


@pytest.mark.parametrize(
    "body",
    [
        array_body("|O", 1, items=b"\0" * 8),
        array_body("O8", 1, items=b"\0" * 8),
        array_body("<f8,<f8", 1, items=b"\0" * 16),
        array_body("(2,)<f8", 1, items=b"\0" * 16),
        array_body("<f8", 2, items=b"\0" * 8),
        array_body("<f8", -1, items=b""),
        array_body("<f8", -1, -1, items=b"\0" * 8),
        array_body("<f8", 2**62, 4, 0),
        array_body("<f8", *[1] * 65, items=b"\0" * 8),
        array_body("<f8", 1.0, items=b"\0" * 8),
        array_body("<f8", True, items=b"\0" * 8),
        array_body("<f8", 1, items=b"\0" * 8, order="X"),
        array_body("|V0", 2**40),
        array_body("<U999999999", 1),
        array_body("<M8[parsec]", 1, items=b"\0" * 8),
        array_body(None, 1),
        array_body(["<f8"], 1),
        array_body(["<f8", [2**40, 2**40]], 0),
        array_body(["<f8", [-1]], 0),
        array_body({"names": ["a"]}, 1),
        array_body({"names": ["a"], "formats": ["O"], "offsets": [0], "itemsize": 8}, 1, items=b"\0" * 8),
        array_body({"names": ["a"], "formats": ["<f8"], "offsets": [-8], "itemsize": 8}, 1, items=b"\0" * 8),
        array_body({"names": ["a"], "formats": ["<f8"], "offsets": [4], "itemsize": 8}, 1, items=b"\0" * 8),
        array_body({"names": ["a", "a"], "formats": ["<i4"] * 2, "offsets": [0, 4], "itemsize": 8}, 1, items=b"\0" * 8),
        array_body({"names": [1], "formats": ["<f8"], "offsets": [0], "itemsize": 8}, 1, items=b"\0" * 8),
        body_of(Code.ARRAY, [["<f8", "C", 1], 0]),
        body_of(Code.ARRAY, [["<f8", "C", 1], "text"]),
        body_of(Code.ARRAY, []),
        body_of(Code.SCALAR, ["|O", b"\0" * 8]),
        body_of(Code.SCALAR, ["<f8", b"\0"]),
        body_of(Code.SCALAR, ["U", b"x"]),
    ],
    ids=lambda body: body[3:40].hex(),
)
def test_hostile_arrays_are_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_body(body)


def test_no_dtype_string_reaches_the_mini_language_of_numpy() -> None:
    for code in np.typecodes["All"]:
        if code != "O":
            spelled = np.dtype(code).str
            assert attempt(array_body(spelled, 0)) in {"value", "RemoteProtocolError"}
    assert attempt(array_body("O", 0)) == "RemoteProtocolError"


@pytest.mark.parametrize("opener", [b"\x91", b"\x81\x01", b"\xdd\x00\x00\x00\x01", b"\xdc\x00\x01"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_deep_nesting_is_refused(opener: bytes, levels: int) -> None:
    with pytest.raises(RemoteProtocolError, match="nested"):
        decode_body(b"\x00" + opener * levels + b"\xc0")


@pytest.mark.parametrize("levels", [1_000, 3_000, 10_000])
def test_deep_nesting_in_a_long_body_is_refused_or_read_as_it_is(levels: int) -> None:
    try:
        value = decode_body(b"\x00" + b"\xdc\x00\x01" * levels + b"\xc0")
    except RemoteProtocolError:
        return
    # the interpreter's stack had room for it
    depth = 0
    while value is not None:
        assert type(value) is list
        assert len(value) == 1
        depth, value = depth + 1, value[0]
    assert depth == levels


def nested(code: int, levels: int) -> bytes:
    packed = b"\xc0"
    for _ in range(levels):
        packed = encode(Ext(code, b"\x91" + packed if code != Code.PAIRS else b"\x92\x91\x01\x91" + packed))
    return b"\x00" + packed


@pytest.mark.parametrize("code", [Code.TUPLE, Code.FROZENSET, Code.PAIRS])
def test_extensions_inside_extensions_are_bounded_too(code: int) -> None:
    decode_body(nested(code, MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, MAX_DEPTH + 2, 1_000):
        with pytest.raises(RemoteProtocolError, match="nested"):
            decode_body(nested(code, levels))


@pytest.mark.parametrize(
    "header", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"]
)
def test_a_count_alone_takes_no_memory(header: bytes) -> None:
    for body in (header, header * 200, b"\x91" * 100 + header):
        with at_most(2_000_000), pytest.raises(RemoteProtocolError):
            decode_body(b"\x00" + body)
    for code in (Code.TUPLE, Code.SET, Code.ARRAY):
        with at_most(2_000_000), pytest.raises(RemoteProtocolError):
            decode_body(b"\x00" + encode(Ext(code, header)))


def test_announced_shapes_and_buffers_take_no_memory() -> None:
    for body in (
        array_body("<f8", 2**40),
        array_body("<U1000000", 2**20, items=b"x"),
        with_buffers(b"\xc0", 2**40),
        with_buffers(b"\xc0", count=2**31),
    ):
        with at_most(100_000), pytest.raises(RemoteProtocolError):
            decode_body(body)


def test_a_buffer_that_is_used_many_times_is_no_bomb() -> None:
    message = encode([Ext(Code.BYTES, encode(0))] * 10_000)
    padding = -(24 + len(message)) % 64
    body = with_buffers(message, 100_000, rest=bytes(padding) + b"x" * 100_000)
    with at_most(3_000_000), pytest.raises(RemoteProtocolError, match="used before"):
        decode_body(body)


@pytest.mark.parametrize("index", [-1, 1, True, 0.0, None, 2**70])
def test_a_buffer_number_that_is_none_is_refused(index: object) -> None:
    message = encode(Ext(Code.BYTES, joined(encode_body(index))[1:]))
    padding = -(24 + len(message)) % 64
    with pytest.raises(RemoteProtocolError):
        decode_body(with_buffers(message, 5, rest=bytes(padding) + b"12345"))


def test_huge_numbers_as_text_cost_no_more_than_their_length() -> None:
    assert decode_body(body_of(Code.DECIMAL, "1E+999999999999999999")).adjusted() == 999999999999999999
    assert len(decode_body(body_of(Code.DECIMAL, "9" * 1_000_000)).as_tuple().digits) == 1_000_000
    assert attempt(body_of(Code.DECIMAL, "1E+99999999999999999999")) == "RemoteProtocolError"
    assert decode_body(body_of(Code.INT, b"\x7f" * 1_000_000)).bit_length() == 7_999_999


def test_a_peer_cannot_set_dunders_or_reach_other_kinds_of_classes() -> None:
    module, qualname = Frozen.__module__, "Frozen"
    for state in ({"__class__": 1}, {"__dict__": {"key": 1}}, {"__weakref__": None}):
        assert attempt(body_of(Code.DATACLASS, [module, qualname, state])) == "RemoteProtocolError"
    for target in (["builtins", "dict"], ["os", "system"], ["subprocess", "Popen"], ["collections", "OrderedDict"]):
        for code, rest in ((Code.DATACLASS, {}), (Code.NAMED_TUPLE, []), (Code.ENUM, "a"), (Code.ENUM, 1)):
            assert attempt(body_of(code, [*target, rest])) == "DecodeError"
    right = [Right.__module__, "Right"]
    assert attempt(body_of(Code.ENUM, [*right, "__class__"])) == "DecodeError"
    assert attempt(body_of(Code.ENUM, [*right, 64])) == "DecodeError"


def test_the_memory_of_a_body_is_not_kept_by_its_reader() -> None:
    used = bytearray(joined(encode_body(b"x" * 1_000_000)))
    unused = bytearray(with_buffers(b"\xc0", 100_000, rest=bytes(64 - 25) + bytes(100_000)))
    gc.disable()
    try:
        for body in (used, unused):
            decode_body(body)
            body.append(1)  # BufferError while a view of it is out
    finally:
        gc.enable()


def test_decoding_again_gives_new_objects() -> None:
    body = joined(encode_body([[1], {2}, bytearray(b"x")]))
    one, other = decode_body(body), decode_body(body)
    one[2][0:1] = b"y"
    assert other[2] == bytearray(b"x")


def strange_value(kind: str) -> Any:
    return {"raw": msgspec.Raw(b"\xc0"), "ext": Ext(1, b"\x90"), "unset": msgspec.UNSET}[kind]


@pytest.mark.parametrize("kind", ["raw", "ext", "unset"])
def test_msgspecs_own_types_cannot_smuggle_bytes_into_a_message(kind: str) -> None:
    with pytest.raises(TypeError, match="cannot send a value of type"):
        encode_body([strange_value(kind)])


def test_members_of_a_set_that_are_equal_count_once() -> None:
    """The stash keeps 1 and True apart; a set of Python cannot."""
    assert decode_body(body_of(Code.SET, [1, 2, 1])) == {1, 2}
