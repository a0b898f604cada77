"""`gunicorn.dirty.tlv`: its encoder's three functions over our reader and writer. Knows only values and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception, named like one
from typing import Any, Final

from dirtybus.errors import DirtyProtocolError, EncodeError
from dirtybus.protocol import tlv
from dirtybus.protocol.frames import Buffer

__all__ = [
    "MAX_BYTES_SIZE",
    "MAX_DICT_SIZE",
    "MAX_LIST_SIZE",
    "MAX_STRING_SIZE",
    "TYPE_BOOL",
    "TYPE_BYTES",
    "TYPE_DICT",
    "TYPE_FLOAT64",
    "TYPE_INT64",
    "TYPE_LIST",
    "TYPE_NONE",
    "TYPE_STRING",
    "TLVEncoder",
]

TYPE_NONE: Final = 0x00
TYPE_BOOL: Final = 0x01
TYPE_INT64: Final = 0x05
TYPE_FLOAT64: Final = 0x06
TYPE_BYTES: Final = 0x10
TYPE_STRING: Final = 0x11
TYPE_LIST: Final = 0x20
TYPE_DICT: Final = 0x21

MAX_STRING_SIZE: Final = tlv.MAX_STRING_BYTES
MAX_BYTES_SIZE: Final = tlv.MAX_STRING_BYTES
MAX_LIST_SIZE: Final = tlv.MAX_ITEMS
MAX_DICT_SIZE: Final = tlv.MAX_ITEMS

_FIXED_BYTES: Final[Mapping[int, int]] = {TYPE_NONE: 0, TYPE_BOOL: 1, TYPE_INT64: 8, TYPE_FLOAT64: 8}
_ITEMS_EACH: Final[Mapping[int, int]] = {TYPE_LIST: 1, TYPE_DICT: 2}
_count_at = Struct(">I").unpack_from
_COUNT_BYTES: Final = 4


class TLVEncoder:
    """Encode and decode values of gunicorn's format."""

    @staticmethod
    def encode(value: object) -> bytes:
        """Return the bytes of ``value``.

        Raises:
            DirtyProtocolError: the format cannot carry it; says the type and where it stands.
        """
        try:
            return tlv.encode(value)
        except EncodeError as exc:
            raise DirtyProtocolError(f"Unsupported type for TLV encoding: {exc}") from exc

    @staticmethod
    def decode(data: Buffer, offset: int = 0) -> tuple[Any, int]:
        """Return the value that starts at ``offset``, and where it ends.

        Raises:
            DirtyProtocolError: the bytes are malformed or cut off.
        """
        try:
            end = _end(data, offset)
        except (IndexError, StructError):
            raise DirtyProtocolError("Truncated TLV data", bytes(data[offset : offset + 20])) from None
        return tlv.decode(data[offset:end]), end

    @staticmethod
    def decode_full(data: Buffer) -> Any:
        """Return the value that ``data`` is.

        Raises:
            DirtyProtocolError: the bytes are malformed or cut off, or others follow.
        """
        return tlv.decode(data)


def _end(data: Buffer, at: int) -> int:
    """Return where the value at ``at`` ends, without building it."""
    pending = 1
    while pending:
        pending -= 1
        code = data[at]
        at += 1
        if code in _FIXED_BYTES:
            at += _FIXED_BYTES[code]
            continue
        if code not in (TYPE_BYTES, TYPE_STRING, TYPE_LIST, TYPE_DICT):
            raise DirtyProtocolError(f"Unknown TLV type code: 0x{code:02x}", bytes(data[at - 1 : at + 19]))
        (count,) = _count_at(data, at)
        at += _COUNT_BYTES
        if code in _ITEMS_EACH:
            pending += count * _ITEMS_EACH[code]
        else:
            at += count
    if at > len(data):
        raise IndexError(at)
    return at
