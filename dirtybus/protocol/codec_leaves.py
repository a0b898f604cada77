"""Values that hold no others: dates, numbers, paths. How each becomes plain msgpack, and comes back.

A leaf writes None, ints, floats, ASCII text, bytes and lists of these; it reads what any peer may have sent, and
says no with ValueError, TypeError and the like.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, TypeVar
from uuid import UUID

from dirtybus.errors import DecodeError
from dirtybus.protocol.places import Unsendable, unsendable_type

__all__ = ["LEAF_TYPES", "LEAVES", "Code", "Leaf", "expect", "leaf_of"]

T = TypeVar("T")


class Code:
    """msgpack extension codes, as the plain ints that msgspec takes. They are for ever: add, never renumber."""

    TUPLE: Final = 1
    SET: Final = 2
    FROZENSET: Final = 3
    PAIRS: Final = 4
    NAMED_TUPLE: Final = 5
    DATACLASS: Final = 6
    ENUM: Final = 7
    RANGE: Final = 8
    SLICE: Final = 9
    BYTES: Final = 16
    BYTEARRAY: Final = 17
    ARRAY: Final = 18
    SCALAR: Final = 19
    INT: Final = 32
    STR: Final = 33
    COMPLEX: Final = 34
    DATE: Final = 35
    TIME: Final = 36
    DATETIME: Final = 37
    TIMEDELTA: Final = 38
    TIMEZONE: Final = 39
    DECIMAL: Final = 40
    UUID: Final = 41
    PATH: Final = 42
    ELLIPSIS: Final = 43


@dataclass(frozen=True, slots=True)
class Leaf:
    """One type: ``write`` gives plain values, ``read`` takes what arrived in their stead."""

    code: int
    write: Callable[[Any], object]
    read: Callable[[Any], object]


def expect(kind: type[T], plain: object) -> T:
    """Return ``plain`` if it is exactly a ``kind``; raise TypeError otherwise."""
    if type(plain) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {type(plain).__name__}")
    return plain


def _write_int(value: int) -> bytes:
    # bytes, not digits: text to int is quadratic
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _read_int(plain: bytes) -> int:
    return int.from_bytes(expect(bytes, plain), "big", signed=True)


def _write_text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _read_text(plain: bytes) -> str:
    return expect(bytes, plain).decode("utf-8", "surrogatepass")


def _read_complex(plain: list[float]) -> complex:
    real, imag = plain
    return complex(expect(float, real), expect(float, imag))


def _read_date(plain: list[Any]) -> date:
    # spelled out: with one argument, date takes a pickle's bytes, unchecked; so do time and datetime
    year, month, day = plain
    return date(year, month, day)


def _write_time(value: time) -> list[object]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, _write_zone(value.tzinfo)]


def _read_time(plain: list[Any]) -> time:
    hour, minute, second, microsecond, fold, zone = plain
    return time(hour, minute, second, microsecond, _read_zone(zone), fold=fold)


def _write_datetime(value: datetime) -> list[object]:
    return [value.year, value.month, value.day, *_write_time(value.timetz())]


def _read_datetime(plain: list[Any]) -> datetime:
    year, month, day, hour, minute, second, microsecond, fold, zone = plain
    return datetime(year, month, day, hour, minute, second, microsecond, _read_zone(zone), fold=fold)


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(plain: list[Any]) -> timedelta:
    days, seconds, microseconds = plain
    return timedelta(days, seconds, microseconds)


def _write_zone(zone: tzinfo | None) -> object:
    """None, the days, seconds, microseconds and perhaps name of a fixed offset, or the key of a ZoneInfo."""
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        plain: list[object] = [*_write_timedelta(offset)]
        return plain if name == timezone(offset).tzname(None) else [*plain, _write_text(name)]
    key = getattr(zone, "key", None) if leaf_of(type(zone)) is _ZONE else None
    if key is not None:
        return _write_text(key)
    raise unsendable_type(type(zone), "use datetime.timezone, or zoneinfo.ZoneInfo with a key, as the time zone")


def _read_zone(plain: Any) -> tzinfo | None:
    if plain is None:
        return None
    if isinstance(plain, bytes):
        return _zone_of_key(_read_text(plain))
    offset = _read_timedelta(plain[:3])
    return timezone(offset, _read_text(plain[3])) if len(plain) > 3 else timezone(offset)


def _zone_of_key(key: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(key)
    except (LookupError, OSError, ValueError) as exc:
        raise DecodeError(f"the time zone {key[:100]!r} is not known here: install tzdata, or send UTC") from exc


_PATH_TYPES: Final = ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")


def _write_path(value: Any) -> list[object]:
    kind = type(value)
    text = str(value)
    if kind(text) != value:
        raise Unsendable(f"the path {text!r} does not survive being written as text; send its parts as a tuple")
    return [_PATH_TYPES.index(kind.__name__), _write_text(text)]


def _read_path(plain: list[Any]) -> object:
    import pathlib

    index, text = plain
    if not 0 <= index < len(_PATH_TYPES):
        raise ValueError(f"there is no path type {index}")
    try:
        return getattr(pathlib, _PATH_TYPES[index])(_read_text(text))
    except NotImplementedError as exc:
        raise DecodeError(f"a {_PATH_TYPES[index]} cannot be made on this system; send a pure path or str") from exc


_PATH: Final = Leaf(Code.PATH, _write_path, _read_path)
_ZONE: Final = Leaf(Code.TIMEZONE, _write_zone, _read_zone)
#: Leaves by their exact class; paths and ZoneInfo, whose modules few processes load, are found by `leaf_of`.
LEAF_TYPES: Final[dict[type, Leaf]] = {
    int: Leaf(Code.INT, _write_int, _read_int),
    str: Leaf(Code.STR, _write_text, _read_text),
    complex: Leaf(Code.COMPLEX, lambda value: [value.real, value.imag], _read_complex),
    date: Leaf(Code.DATE, lambda value: [value.year, value.month, value.day], _read_date),
    time: Leaf(Code.TIME, _write_time, _read_time),
    datetime: Leaf(Code.DATETIME, _write_datetime, _read_datetime),
    timedelta: Leaf(Code.TIMEDELTA, _write_timedelta, _read_timedelta),
    timezone: _ZONE,
    Decimal: Leaf(Code.DECIMAL, str, lambda plain: Decimal(expect(str, plain))),
    UUID: Leaf(Code.UUID, lambda value: value.bytes, lambda plain: UUID(bytes=expect(bytes, plain))),
    type(...): Leaf(Code.ELLIPSIS, lambda _value: None, lambda _plain: ...),
}
#: Every leaf by the code it has on the wire.
LEAVES: Final[dict[int, Leaf]] = {leaf.code: leaf for leaf in (*LEAF_TYPES.values(), _PATH)}


def leaf_of(kind: type) -> Leaf | None:
    """Return the leaf of a class that is not in `LEAF_TYPES`, or None. Loads nothing: its module is there already."""
    pathlib, zoneinfo = sys.modules.get("pathlib"), sys.modules.get("zoneinfo")
    if kind.__name__ in _PATH_TYPES and getattr(pathlib, kind.__name__, None) is kind:
        return _PATH
    return _ZONE if getattr(zoneinfo, "ZoneInfo", None) is kind else None
