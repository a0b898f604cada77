from __future__ import annotations

import pickle
import sys
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.protocol import codec_leaves
from dirtybus.protocol.codec import (
    ALIGNMENT,
    OUT_OF_BAND_BYTES,
    decode_body,
    encode_body,
    importable_types,
)
from tests.protocol.specimens import (
    ONE_OF_EACH,
    Child,
    Colour,
    Frozen,
    Level,
    Open,
    Outer,
    Slotted,
    Warmth,
    arrays,
    hashables,
    joined,
    same,
    through,
    values,
)


@given(values)
def test_any_value_comes_back_equal_and_of_the_same_type(value: object) -> None:
    assert same(value, through(value))


@given(st.lists(values, max_size=3).map(tuple), st.dictionaries(st.text(), values, max_size=3))
def test_arguments_come_back_as_a_tuple_and_a_dict(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    assert same([args, kwargs], through([args, kwargs]))


@given(st.dictionaries(hashables, st.integers(), max_size=6))
def test_keys_of_any_kind_keep_their_type_and_order(value: dict[Any, int]) -> None:
    assert same(value, through(value))


@given(arrays)
def test_arrays_keep_their_dtype_shape_and_items_and_come_back_writable(array: np.ndarray[Any, Any]) -> None:
    assert same(array, through(array))


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_each_type_comes_back_from_inside_each_container(value: object) -> None:
    single = ([value], (value,), {"k": value}, {3: value}, slice(value), Open(value), Slotted(value))
    for wrapped in (*single, [[1, {"a": value}]], Frozen(None, (value,))):
        assert same(wrapped, through(wrapped))


@pytest.mark.parametrize("count", [31, 32, 33, 1000])
def test_one_odd_item_in_a_long_plain_list_keeps_its_type(count: int) -> None:
    for odd in (Level.LOW, Warmth.HOT, Colour.HALF, True, (1,), 2**70, "\udfff"):
        for at in (0, count // 2, count - 1):
            items: list[Any] = [1.5] * count
            items[at] = odd
            assert same(items, through(items))
            assert same(dict(enumerate(items)), through(dict(enumerate(items))))


def test_ints_at_the_edges_of_64_bits_come_back() -> None:
    for edge in (2**63, 2**64, -(2**63)):
        for value in (edge - 1, edge, edge + 1):
            assert same([value, {value: value}], through([value, {value: value}]))


def test_an_int_of_a_million_bits_comes_back_quickly() -> None:
    value = (1 << 1_000_000) - 1
    assert through(value) == value
    assert through(-value) == -value


def test_a_dataclass_is_rebuilt_without_running_its_constructor() -> None:
    sent = Child("x", extra=(1,))
    sent.seen = {5}
    back = through(sent)
    assert vars(back) == {"name": "x", "items": [], "seen": {5}, "extra": (1,), "calls": 1}


def test_a_field_that_was_never_set_stays_unset() -> None:
    sent = Slotted("k")
    object.__delattr__(sent, "value")
    back = through(sent)
    assert back.key == "k"
    assert not hasattr(back, "value")


def test_a_nested_class_is_found_by_its_qualified_name() -> None:
    assert same(Outer.Inner([1]), through(Outer.Inner([1])))


def test_fixed_offsets_keep_their_names_and_zones_their_identity() -> None:
    named = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "mine"))
    assert through(named).tzname() == "mine"
    paris = ZoneInfo("Europe/Paris")
    assert through(datetime(2024, 10, 27, 2, 30, tzinfo=paris, fold=1)).utcoffset() == timedelta(hours=1)
    assert through(paris) is paris


def test_fortran_order_stays_fortran_order() -> None:
    big = np.asfortranarray(np.arange(40_000).reshape(200, 200))
    for array in (big, big[:3, :3].copy(order="F")):
        assert through(array).flags.f_contiguous
        assert same(array, through(array))


def test_structures_keep_their_offsets_padding_and_subarrays() -> None:
    inner = np.dtype({"names": ["b", "a"], "formats": ["<f8", "i1"], "offsets": [8, 0], "itemsize": 32})
    dtype = np.dtype([("one", inner), ("many", "<M8[ms]", (2, 3)), ("raw", "V3")])
    array = np.zeros((2,), dtype)
    array["one"]["b"] = 1.5
    back = through(array)
    assert back.dtype == dtype
    assert back.dtype["one"].fields["b"][1] == 8
    assert (back["one"]["b"] == 1.5).all()


def test_other_byte_orders_and_read_only_arrays_travel() -> None:
    array = np.arange(5, dtype=">i4")
    array.flags.writeable = False
    assert same(array, through(array))


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("length", [0, OUT_OF_BAND_BYTES - 1, OUT_OF_BAND_BYTES, OUT_OF_BAND_BYTES + 1])
def test_bytes_come_back_on_both_sides_of_the_threshold(kind: type, length: int) -> None:
    value = kind(b"x" * length)
    assert same([value, value], through([value, value]))


def test_long_runs_are_not_copied_on_the_way_out() -> None:
    array, text, run = np.arange(20_000), b"b" * 70_000, bytearray(70_000)
    parts = encode_body([array, text, run])
    assert any(part is text for part in parts)
    array[0], run[0] = 77, 9
    back = decode_body(joined(parts))
    assert back[0][0] == 77
    assert back[2][0] == 9


def test_buffers_start_aligned_in_the_body() -> None:
    body = joined(encode_body([b"\xaa" * 70_001, b"\xbb" * 70_001]))
    assert body.index(b"\xaa" * 100) % ALIGNMENT == 0
    assert body.index(b"\xbb" * 100) % ALIGNMENT == 0


def test_a_large_array_lives_in_a_writable_body_and_leaves_a_read_only_one_alone() -> None:
    array = np.arange(20_000)
    body = joined(encode_body(array))
    writable = bytearray(body)
    shared = decode_body(memoryview(writable))
    shared[0] = 99
    assert decode_body(bytes(writable))[0] == 99
    copied = decode_body(body)
    copied[0] = 99
    assert decode_body(body)[0] == 0


@pytest.mark.parametrize("shift", range(9))
def test_arrays_are_aligned_wherever_the_body_lies(shift: int) -> None:
    array = np.arange(20_000, dtype="<f8")
    body = bytearray(shift) + joined(encode_body(array))
    back = decode_body(memoryview(body)[shift:])
    assert back.flags.aligned
    assert same(array, back)


def test_arrays_in_one_body_do_not_share_memory() -> None:
    array = np.arange(20_000)
    one, other = decode_body(bytearray(joined(encode_body([array, array]))))
    one[:] = 0
    assert same(array, other)


def test_a_body_may_be_bytes_bytearray_or_a_view_of_either() -> None:
    body = joined(encode_body(["x", (1,), b"y" * 70_000]))
    for data in (body, bytearray(body), memoryview(body), memoryview(bytearray(body))):
        assert same(["x", (1,), b"y" * 70_000], decode_body(data))


def test_the_bytes_of_a_plain_body_are_stable() -> None:
    assert joined(encode_body({"a": [1, None]})) == b"\x00\x81\xa1a\x92\x01\xc0"
    assert joined(encode_body((1,))) == b"\x00\xd5\x01\x91\x01"


def test_extension_codes_are_distinct() -> None:
    codes = [code for name, code in vars(codec_leaves.Code).items() if name.isupper()]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 128 for code in codes)


def test_importable_types_finds_classes_as_well() -> None:
    body = joined(encode_body([Open("x"), Colour.RED]))
    assert same([Open("x"), Colour.RED], decode_body(body, resolve=importable_types))


def test_a_resolver_of_ones_own_decides_the_class() -> None:
    body = joined(encode_body(Frozen("k", 1)))
    assert same(Slotted("k", 1), decode_body(body, resolve=lambda module, qualname: Slotted))


def test_two_hundred_levels_travel_from_deep_in_the_stack() -> None:
    value: object = "bottom"
    for level in range(200):
        value = [value] if level % 2 else (value,)

    def deep(calls: int) -> Any:
        return deep(calls - 1) if calls else through(value)

    assert pickle.dumps(deep(min(150, sys.getrecursionlimit() // 5))) == pickle.dumps(value)
