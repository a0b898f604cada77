"""Classes and values that travel in the tests, and what it means to come back the same."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import namedtuple
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.protocol.frames import Buffer


class Colour(enum.Enum):
    RED = "red"
    BLUE = (0, 0, 255)
    CRIMSON = "red"  # noqa: PIE796 - an alias, on purpose
    HALF = 0.5


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2**70


class Mode(enum.StrEnum):
    FAST = "fast"


class Right(enum.Flag):
    READ = 1
    WRITE = 2
    ALL = 3


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Warmth(float, enum.Enum):
    HOT = 1.5


class Point(NamedTuple):
    x: Any
    y: Any


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the older kind travels too


@dataclasses.dataclass
class Open:
    name: Any
    items: Any = dataclasses.field(default_factory=list)
    seen: Any = dataclasses.field(init=False, default=0)


@dataclasses.dataclass(frozen=True)
class Frozen:
    key: Any
    value: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    key: Any
    value: Any = None


@dataclasses.dataclass
class Child(Open):
    extra: Any = None

    def __post_init__(self) -> None:
        self.calls = getattr(self, "calls", 0) + 1


class Outer:
    @dataclasses.dataclass
    class Inner:
        value: Any


def same(left: Any, right: Any) -> bool:
    """Equal and of the same type all the way down; NaN is itself, -0.0 is not 0.0, order of keys counts."""
    if type(left) is not type(right):
        return False
    compare = _SAME.get(type(left))
    if compare is not None:
        return bool(compare(left, right))
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if isinstance(left, enum.Enum):
        return left is right
    if isinstance(left, np.generic):
        return bool(left.dtype == right.dtype and left.tobytes() == right.tobytes())
    return bool(left == right)


def _same_float(left: float, right: float) -> bool:
    both_nan = math.isnan(left) and math.isnan(right)
    return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))


def _same_items(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def _same_members(left: frozenset[object], right: frozenset[object]) -> bool:
    return len(left) == len(right) and all(any(same(one, other) for other in right) for one in left)


def _same_zone(left: tzinfo | None, right: tzinfo | None) -> bool:
    if isinstance(left, ZoneInfo):
        return left is right
    return type(left) is type(right) and (left is None or (left.tzname(None) == right.tzname(None) and left == right))  # type: ignore[union-attr]


def _same_moment(left: Any, right: Any) -> bool:
    plain = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return plain and left.fold == right.fold and _same_zone(left.tzinfo, right.tzinfo)


def _same_array(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    alike = left.dtype == right.dtype and left.shape == right.shape and right.flags.writeable
    return alike and left.tobytes() == right.tobytes()


_SAME: dict[type, Any] = {
    float: _same_float,
    complex: lambda a, b: _same_float(a.real, b.real) and _same_float(a.imag, b.imag),
    list: _same_items,
    tuple: _same_items,
    dict: lambda a, b: _same_items([*a], [*b]) and _same_items([*a.values()], [*b.values()]),
    set: _same_members,
    frozenset: _same_members,
    datetime: _same_moment,
    time: _same_moment,
    timezone: _same_zone,
    ZoneInfo: _same_zone,
    Decimal: lambda a, b: a.as_tuple() == b.as_tuple(),
    slice: lambda a, b: _same_items([a.start, a.stop, a.step], [b.start, b.stop, b.step]),
    np.ndarray: _same_array,
}


def through(value: object) -> Any:
    """Send a value and receive it."""
    return decode_body(joined(encode_body(value)))


def joined(parts: Sequence[Buffer]) -> bytes:
    return b"".join(parts)


_zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(seconds=-1), "odd \ud800")])
_any_zone = st.none() | _zones | st.sampled_from([ZoneInfo("UTC"), ZoneInfo("Europe/Paris")])
_any_text = st.text() | st.text(st.characters(codec=None), max_size=5)
_path_text = st.lists(st.text("ab c.é\ud800", min_size=1, max_size=5), max_size=4).map("/".join)

_flags = [*Right, Right.READ | Right.WRITE, Right(0), Bits.A | Bits.B, Bits(64)]
_members = [*Colour, *Level, *Mode, *Warmth, *_flags]

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.integers(min_value=2**500, max_value=2**600),
    st.floats(),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]),
    st.complex_numbers(),
    _any_text,
    st.binary(),
    st.dates(),
    st.times(timezones=_any_zone),
    st.datetimes(timezones=_any_zone).flatmap(lambda d: st.sampled_from([d, d.replace(fold=1)])),
    st.timedeltas(),
    _zones,
    st.decimals(allow_nan=False),
    st.sampled_from([Decimal("1E+999999"), Decimal("-0"), Decimal("0E-10"), Decimal("-NaN7")]),
    st.uuids(),
    _path_text.map(PurePosixPath),
    _path_text.map(PosixPath),
    st.sampled_from([PureWindowsPath("C:/a/b"), PureWindowsPath(r"\\server\share\x"), PureWindowsPath("a")]),
    st.sampled_from(_members),
    st.builds(range, st.integers(), st.integers(), st.integers(1)),
    st.just(...),
)


@st.composite
def _named(draw: st.DrawFn, of: str) -> Any:
    """One of this module's strategies, with a short repr: hypothesis warns of one that repeats all of this."""
    return draw(globals()[of])


leaves = _named("_leaves")
_hashables = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.frozensets(inner, max_size=4),
        st.builds(Frozen, inner, inner),
        st.builds(Slotted, inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=6,
)
hashables = _named("_hashables")
_dtypes = st.one_of(
    npst.scalar_dtypes(),
    npst.array_dtypes(),
    npst.nested_dtypes(max_leaves=4),
).filter(lambda dtype: not dtype.hasobject)
_arrays = npst.arrays(_dtypes, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
arrays = st.one_of(_arrays, _arrays.map(lambda a: a.T), _arrays.map(lambda a: a[::-1] if a.ndim else a))
_scalars = npst.arrays(npst.scalar_dtypes(), ()).map(lambda a: a[()])
unhashables = st.one_of(st.binary().map(bytearray), arrays, _scalars, st.just(Decimal("sNaN12")))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
        st.sets(hashables, max_size=4),
        st.frozensets(hashables, max_size=4),
        st.builds(Open, inner, st.lists(inner, max_size=2)),
        st.builds(Frozen, inner, inner),
        st.builds(Slotted, inner, inner),
        st.builds(Child, inner, extra=inner),
        st.builds(Outer.Inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(slice, inner, inner, inner),
    )


values = st.recursive(leaves | unhashables, _containers, max_leaves=12)

#: One of each type, for tests that must meet all of them.
ONE_OF_EACH: list[Any] = [
    None, True, 7, 2**80, -(2**80), 0.1, math.nan, 1j, "text", "\ud800", b"bytes", bytearray(b"array"),
    [1, [2]], (1, (2,)), {1, 2}, frozenset({3}), {"a": 1}, {1: "b", (2, None): "c"},
    date(2024, 2, 29), time(1, 2, 3, 4, fold=1), datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
    timedelta(-1, 5), UTC, Decimal("1.10"), UUID(int=5), PurePosixPath("a/b"), Colour.BLUE,
    Right.READ | Right.WRITE, Point(1, 2), Open("x"), Slotted((1,)), range(3), slice(1, None), ...,
    np.arange(6.0).reshape(2, 3), np.array([("a", 1)], [("name", "U3"), ("n", "<i4")]), np.float32(1.5), np.str_("s\0"),
    np.bytes_(b"s\0"),
    np.arange(20_000), b"b" * 70_000, bytearray(b"c" * 70_000),
]  # fmt: skip

#: Values that have no way.
UNSENDABLE: list[Any] = [object(), Fraction(1, 2), memoryview(b""), print, math, type, (_ for _ in ()), iter([])]
