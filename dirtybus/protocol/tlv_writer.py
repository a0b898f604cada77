"""The writer of GD v1 payloads. Knows only values; what cannot be written is named with its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception, named like one
from typing import Any, Final

from dirtybus.protocol.places import Unsendable, no_room, step_to_key, unsendable_type
from dirtybus.protocol.tlv_format import (
    BLOCK_ITEMS,
    BYTES,
    DICT,
    FLOAT,
    INT,
    LEAST_ITEMS,
    LIST,
    MAX_ITEMS,
    MAX_STRING_BYTES,
    NUMBER_BYTES,
    STR,
    blocks,
)

__all__ = ["encode"]

_NONE_TOKEN, _TRUE_TOKEN, _FALSE_TOKEN = b"\x00", b"\x01\x01", b"\x01\x00"
_int_token = Struct(">Bq").pack
_float_token = Struct(">Bd").pack
_start_token = Struct(">BI").pack
_CODE_OF: Final[dict[type, int]] = {int: INT, float: FLOAT}
_CACHED_KEY_CHARS: Final = 64
_REMEDY: Final = "GD v1 has None, bool, int, float, str, bytes, list, tuple and dict"


def encode(value: object, *, root: str = "value") -> bytes:
    """Return the bytes that gunicorn's encoder writes for ``value``.

    Raises:
        EncodeError: a type the format lacks, an int over 64 bits, a lone surrogate, more than `MAX_STRING_BYTES` or
            `MAX_ITEMS`, or nesting that the Python stack cannot hold. The message names the place from ``root`` on.
    """
    parts: list[bytes] = []
    try:
        _write(value, parts.append)
    except Unsendable as refusal:
        raise refusal.to_error(root) from None
    except RecursionError:
        raise no_room(root) from None
    return b"".join(parts)


_Add = Callable[[bytes], object]


def _write(value: object, add: _Add) -> None:
    write = _WRITERS.get(type(value))
    if write is None:
        write = _writer_of_base(type(value))
    write(value, add)


def _writer_of_base(kind: type) -> Callable[[Any, _Add], None]:
    """Subclasses are written as their base, which is how the format has always had enums and named tuples."""
    for base in (int, float, bytes, str, list, tuple, dict):
        if issubclass(kind, base):
            return _WRITERS[base]
    raise unsendable_type(kind, _REMEDY)


def _write_none(_value: None, add: _Add) -> None:
    add(_NONE_TOKEN)


def _write_bool(value: bool, add: _Add) -> None:
    add(_TRUE_TOKEN if value else _FALSE_TOKEN)


def _write_int(value: int, add: _Add) -> None:
    try:
        add(_int_token(INT, value))
    except StructError:
        raise Unsendable(
            f"an int of {value.bit_length()} bits does not fit the 64 of GD v1; send it as text, or use the native "
            f"protocol"
        ) from None


def _write_float(value: float, add: _Add) -> None:
    add(_float_token(FLOAT, value))


def _write_bytes(value: bytes, add: _Add) -> None:
    if len(value) > MAX_STRING_BYTES:
        raise Unsendable(f"{len(value)} bytes are over the {MAX_STRING_BYTES} that GD v1 allows; send them in parts")
    add(_start_token(BYTES, len(value)))
    add(value)


def _text_token(value: str) -> bytes:
    try:
        text = value.encode()
    except UnicodeEncodeError as exc:
        raise Unsendable(f"text that is not valid Unicode cannot be sent ({exc.reason}); send it as bytes") from None
    if len(text) > MAX_STRING_BYTES:
        raise Unsendable(f"{len(text)} bytes of text are over the {MAX_STRING_BYTES} that GD v1 allows; send parts")
    return _start_token(STR, len(text)) + text


_cached_text_token = functools.lru_cache(maxsize=2048)(_text_token)


def _write_str(value: str, add: _Add) -> None:
    add(_text_token(value))


def _write_list(value: list[object] | tuple[object, ...], add: _Add) -> None:
    count = len(value)
    if count > MAX_ITEMS:
        raise Unsendable(f"{count} items are over the {MAX_ITEMS} that GD v1 allows; send them in parts")
    add(_start_token(LIST, count))
    if count >= LEAST_ITEMS and _write_numbers(value, add):
        return
    item: object = None
    try:
        for item in value:
            kind = type(item)
            if kind is str:
                add(_text_token(item))  # type: ignore[arg-type]
            elif kind is float:
                add(_float_token(FLOAT, item))
            else:
                (_WRITERS.get(kind) or _writer_of_base(kind))(item, add)
    except Unsendable as refusal:
        refusal.inside(f"[{_index_of(item, value)}]")
        raise


def _index_of(item: object, items: list[object] | tuple[object, ...]) -> int:
    # by identity: equality is user code. An earlier occurrence of the same object was refused as well, so it is found
    return next((index for index, other in enumerate(items) if other is item), 0)


def _write_numbers(value: list[Any] | tuple[Any, ...], add: _Add) -> bool:
    """Write a list of floats only, or of 64-bit ints only, at C speed; return whether it was one."""
    kind = type(value[0])
    code = _CODE_OF.get(kind)
    if code is None or [*map(type, value)].count(kind) != len(value):
        return False
    tokens = bytearray(NUMBER_BYTES * len(value))
    at = 0
    try:
        for block in blocks(code, len(value)):
            block.pack_into(tokens, at * NUMBER_BYTES, *value[at : at + BLOCK_ITEMS])
            at += BLOCK_ITEMS
    except StructError:
        return False  # an int too long: the slow way names it
    tokens[::NUMBER_BYTES] = bytes((code,)) * len(value)
    add(bytes(tokens))
    return True


def _write_dict(value: dict[object, object], add: _Add) -> None:
    if len(value) > MAX_ITEMS:
        raise Unsendable(f"{len(value)} entries are over the {MAX_ITEMS} that GD v1 allows; send them in parts")
    add(_start_token(DICT, len(value)))
    key: object = None
    try:
        for key, item in value.items():
            name = key if isinstance(key, str) else str(key)
            is_short = type(name) is str and len(name) <= _CACHED_KEY_CHARS
            add(_cached_text_token(name) if is_short else _text_token(name))
            kind = type(item)
            if kind is str:
                add(_text_token(item))  # type: ignore[arg-type]
            else:
                (_WRITERS.get(kind) or _writer_of_base(kind))(item, add)
    except Unsendable as refusal:
        refusal.inside(step_to_key(key))
        raise


_WRITERS: Final[dict[type, Callable[[Any, _Add], None]]] = {
    type(None): _write_none,
    bool: _write_bool,
    int: _write_int,
    float: _write_float,
    bytes: _write_bytes,
    str: _write_str,
    list: _write_list,
    tuple: _write_list,
    dict: _write_dict,
}
