"""The reader of GD v1 payloads. Whatever the bytes, it ends in a value or in `RemoteProtocolError`."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception, named like one
from typing import Any, Final

from dirtybus.errors import RemoteProtocolError
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.tlv_format import (
    BOOL,
    BYTES,
    DICT,
    FLOAT,
    INT,
    LEAST_ITEMS,
    LETTER,
    LIST,
    MAX_ITEMS,
    MAX_STRING_BYTES,
    NONE,
    NUMBER_BYTES,
    STR,
    blocks,
)

__all__ = ["decode"]

_int_at = Struct(">q").unpack_from
_float_at = Struct(">d").unpack_from
_count_at = Struct(">I").unpack_from


def decode(data: Buffer) -> Any:
    """Return the value that gunicorn's decoder reads from the whole of ``data``.

    Raises:
        RemoteProtocolError: ``data`` is not exactly one value, or goes over a limit of the format.
    """
    whole = data if type(data) is bytes else bytes(data)
    try:
        value, end = _read(whole, 0)
    except (IndexError, StructError):
        raise RemoteProtocolError("the TLV value is cut off", whole) from None
    except UnicodeDecodeError as exc:
        raise RemoteProtocolError(f"TLV text is not UTF-8: {exc.reason}", whole) from None
    except RecursionError:
        raise RemoteProtocolError("the TLV value is nested too deep", whole) from None
    # readers do not check each end: one that ran over leaves `end` past the data, and is caught here
    if end > len(whole):
        raise RemoteProtocolError("the TLV value is cut off", whole)
    if end < len(whole):
        raise RemoteProtocolError(f"{len(whole) - end} bytes follow the TLV value", whole)
    return value


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value that starts at ``at``, and where the next one does."""
    read = _READERS.get(data[at])
    if read is None:
        raise RemoteProtocolError(f"unknown TLV type 0x{data[at]:02x} at byte {at}", data)
    return read(data, at + 1)


def _read_none(_data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _read_bool(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    return _int_at(data, at)[0], at + 8


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    return _float_at(data, at)[0], at + 8


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length = _length(data, at, MAX_STRING_BYTES)
    end = at + 4 + length
    return data[at + 4 : end], end


def _read_str(data: bytes, at: int) -> tuple[str, int]:
    end = at + 4 + _length(data, at, MAX_STRING_BYTES)
    return str(data[at + 4 : end], "utf-8"), end


def _read_list(data: bytes, at: int) -> tuple[list[Any], int]:
    count = _length(data, at, MAX_ITEMS)
    at += 4
    if count >= LEAST_ITEMS and (code := data[at]) in LETTER and _is_uniform(data, at, code, count):
        return _read_numbers(data, at, code, count), at + NUMBER_BYTES * count
    items: list[Any] = []
    add = items.append
    for _ in range(count):
        code = data[at]
        if code == STR:
            start = at + 5
            at = start + _length(data, at + 1, MAX_STRING_BYTES)
            add(str(data[start:at], "utf-8"))
        elif code == FLOAT:
            add(_float_at(data, at + 1)[0])
            at += NUMBER_BYTES
        elif code == INT:
            add(_int_at(data, at + 1)[0])
            at += NUMBER_BYTES
        else:
            item, at = _read(data, at)
            add(item)
    return items, at


def _is_uniform(data: bytes, at: int, code: int, count: int) -> bool:
    """Whether ``count`` numbers of type ``code`` start at ``at``: then every ninth byte is that code."""
    end = at + NUMBER_BYTES * count
    return end <= len(data) and data[at:end:NUMBER_BYTES] == bytes((code,)) * count


def _read_numbers(data: bytes, at: int, code: int, count: int) -> list[Any]:
    numbers: list[Any] = []
    for block in blocks(code, count):
        numbers.extend(block.unpack_from(data, at))
        at += block.size
    return numbers


def _read_dict(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    count = _length(data, at, MAX_ITEMS)
    at += 4
    entries: dict[str, Any] = {}
    for _ in range(count):
        if data[at] != STR:
            raise RemoteProtocolError(f"a TLV dict key must be text, not type 0x{data[at]:02x}", data)
        start = at + 5
        at = start + _length(data, at + 1, MAX_STRING_BYTES)
        key = str(data[start:at], "utf-8")
        code = data[at]
        if code == STR:
            start = at + 5
            at = start + _length(data, at + 1, MAX_STRING_BYTES)
            entries[key] = str(data[start:at], "utf-8")
        elif code == INT:
            entries[key] = _int_at(data, at + 1)[0]
            at += NUMBER_BYTES
        else:
            entries[key], at = _read(data, at)
    return entries, at


def _length(data: bytes, at: int, limit: int) -> int:
    length: int = _count_at(data, at)[0]
    if length > limit:
        raise RemoteProtocolError(f"a TLV length of {length} is over the limit of {limit}", data)
    return length


_READERS: Final[dict[int, Callable[[bytes, int], tuple[Any, int]]]] = {
    NONE: _read_none,
    BOOL: _read_bool,
    INT: _read_int,
    FLOAT: _read_float,
    BYTES: _read_bytes,
    STR: _read_str,
    LIST: _read_list,
    DICT: _read_dict,
}
