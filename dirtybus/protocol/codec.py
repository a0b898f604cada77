"""The body of a native message: any value that may travel, as bytes, and back.

It owns the layout only; what a value becomes is `codec_packer`'s and `codec_reader`'s. The arbiter never comes here.
Two layouts, told apart by the first byte::

    0 | msgpack
    1 | 3 unused bytes | buffer count u32 | msgpack length u64 | length of each buffer u64… | msgpack | buffers…

Each buffer starts at a multiple of `ALIGNMENT` from the body's start.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from dirtybus.errors import DecodeError, DirtyError, RemoteProtocolError
from dirtybus.protocol.codec_classes import Resolver, importable_types, loaded_types
from dirtybus.protocol.codec_packer import MAX_DEPTH, OUT_OF_BAND_BYTES, PLAIN, Packer, encode
from dirtybus.protocol.codec_reader import Reader, Runs
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.places import Unsendable, no_room

__all__ = [
    "ALIGNMENT",
    "MAX_DEPTH",
    "OUT_OF_BAND_BYTES",
    "Body",
    "Resolver",
    "decode_body",
    "encode_body",
    "encode_whole",
    "importable_types",
    "loaded_types",
]

#: Parts to be written one after the other.
Body = Sequence[Buffer]

ALIGNMENT: Final = 64
_PLAIN: Final = b"\x00"
_WITH_BUFFERS: Final = 1
_PREFIX: Final = struct.Struct(">B3xI")
_LENGTH_BYTES: Final = 8
#: Longer messages go out as a part of their own, not copied behind the first byte.
_JOINED_BYTES: Final = 16 * 1024

# A body up to this size is held to `MAX_DEPTH` exactly. For a longer one that would cost as much as decoding it; what
# bounds its plain nesting is the interpreter's limit of recursion in C, which msgspec obeys: some hundreds of levels in
# Python 3.11, some thousands from 3.12 on.
_EXACT_BYTES: Final = 1024
_OPENERS: Final = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
_NOT_OPENERS: Final = bytes(set(range(256)).difference(_OPENERS))
#: Python and C frames that `MAX_DEPTH` levels may take.
_FRAMES_NEEDED: Final = 3 * MAX_DEPTH


def encode_body(value: object, *, root: str | tuple[str, ...] = "value") -> list[Buffer]:
    """Return the body's parts, to be written one after the other.

    Bytes, bytearrays and numpy arrays of `OUT_OF_BAND_BYTES` or more are not copied: their part is a view of the
    caller's memory, which must be neither changed nor resized before the parts are written.

    Args:
        value: what to send.
        root: what ``value`` is called in the place of an error; a tuple names each item of a list or tuple instead,
            so that ``("args", "kwargs")`` gives places such as ``args[0]['x']``.

    Raises:
        EncodeError: a value in it would not come back equal and of the same type, or it is nested more than
            `MAX_DEPTH` deep. The message names the type, the place and the remedy.
    """
    try:
        try:
            if type(value) in PLAIN:
                return _parts_of(encode(value))
            return _parts(Packer(), value)
        except (OverflowError, UnicodeEncodeError):
            # an int over 64 bits or a lone surrogate: rare, so only then is each int and str looked at
            return _parts(Packer(careful=True), value)
    except Unsendable as refusal:
        raise refusal.to_error(root) from None
    except RecursionError:
        raise no_room(root) from None


def encode_whole(value: object, *, root: str = "value") -> bytes:
    """Return the body in one piece, with its large buffers copied into it. Raises as `encode_body`."""
    try:
        try:
            return _PLAIN + encode(value if type(value) in PLAIN else Packer(whole=True).pack(value))
        except (OverflowError, UnicodeEncodeError):
            return _PLAIN + encode(Packer(careful=True, whole=True).pack(value))
    except Unsendable as refusal:
        raise refusal.to_error(root) from None
    except RecursionError:
        raise no_room(root) from None


def _parts(packer: Packer, value: object) -> list[Buffer]:
    message = encode(packer.pack(value))
    buffers = packer.buffers
    if buffers:
        return _parts_with_buffers(message, buffers)
    return _parts_of(message)


def _parts_of(message: bytes) -> list[Buffer]:
    return [_PLAIN + message] if len(message) <= _JOINED_BYTES else [_PLAIN, message]


def _parts_with_buffers(message: bytes, buffers: Sequence[Buffer]) -> list[Buffer]:
    lengths = [len(message), *map(len, buffers)]
    start = _PREFIX.pack(_WITH_BUFFERS, len(buffers)) + struct.pack(f">{len(lengths)}Q", *lengths) + message
    parts: list[Buffer] = [start]
    end = len(start)
    for buffer in buffers:
        padding = -end % ALIGNMENT
        parts += [bytes(padding), buffer] if padding else [buffer]
        end += padding + len(buffer)
    return parts


def decode_body(data: Buffer, *, resolve: Resolver = loaded_types) -> Any:
    """Return the value that `encode_body` was given.

    Arrays of `OUT_OF_BAND_BYTES` or more live in ``data`` itself when that is writable and they lie aligned in it, so
    leave it to them.

    Args:
        data: the whole body.
        resolve: finds the classes of dataclasses, enums and named tuples. The default never imports.

    Raises:
        RemoteProtocolError: the body is malformed.
        DecodeError: it is sound, but holds what cannot be rebuilt in this process: a class that is not loaded, an
            unknown time zone, an array without numpy.
    """
    view = memoryview(data)
    try:
        return _read(view, resolve)
    except DirtyError:
        raise
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as exc:
        raise RemoteProtocolError(f"the body cannot be read: {exc}") from exc
    except MemoryError:
        raise
    except Exception as exc:
        # nothing of ours raises anything else: it came from a user's __eq__, __hash__ or enum
        raise DecodeError(f"a class of the body failed to be rebuilt: {type(exc).__name__}: {exc}") from exc


def _read(view: memoryview, resolve: Resolver) -> Any:
    if not view:
        raise RemoteProtocolError("the body is empty; even None has two bytes")
    if view[0] == _PLAIN[0]:
        reader = _shared_reader(resolve)
        return _decoded(reader, view[1:])
    if view[0] != _WITH_BUFFERS:
        raise RemoteProtocolError(f"the body is of unknown layout {view[0]}")
    message, buffers = _split(view)
    runs = Runs(buffers)
    try:
        return _decoded(Reader(resolve, runs), message)
    finally:
        runs.forget()


def _split(view: memoryview) -> tuple[memoryview, list[memoryview]]:
    """Return the message and the buffers of a body that has some."""
    _, count = _PREFIX.unpack_from(view) if len(view) >= _PREFIX.size else (0, 0)
    end = _PREFIX.size + _LENGTH_BYTES * (count + 1)
    if not count or end > len(view):
        raise RemoteProtocolError(f"a body of {len(view)} bytes has no room for the lengths of {count} buffers")
    first, *lengths = struct.unpack(f">{count + 1}Q", view[_PREFIX.size : end])
    message = view[end : end + first]
    end += first
    buffers = []
    for length in lengths:
        end += -end % ALIGNMENT
        buffers.append(view[end : end + length])
        end += length
    if end != len(view):
        raise RemoteProtocolError(f"the parts of a body add up to {end} bytes, and it has {len(view)}")
    return message, buffers


def _decoded(reader: Reader, message: memoryview) -> Any:
    value = reader.decode(message)
    if MAX_DEPTH < len(message) <= _EXACT_BYTES and len(bytes(message).translate(None, _NOT_OPENERS)) > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: object) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [item for item in level if type(item) in _CONTAINERS]
        if not containers:
            return
        level = [item for each in containers for item in (each.values() if type(each) is dict else each)]
    raise RemoteProtocolError(f"the body is nested more than {MAX_DEPTH} levels deep")


def _too_deep() -> DirtyError:
    """Tell a body that is nested too deep from a stack that was nearly full before we began."""
    frames = 0
    frame = sys._getframe()  # noqa: SLF001 - the only cheap way to count frames
    while frame.f_back is not None:
        frames, frame = frames + 1, frame.f_back
    if frames + _FRAMES_NEEDED <= sys.getrecursionlimit():
        return RemoteProtocolError(f"the body is nested more than {MAX_DEPTH} levels deep")
    return DecodeError("the body is nested too deep for what is left of the Python stack; decode it higher up")


_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset})
# made once for each way to find classes: a reader costs more than reading a small body; few, as a caller may make many
_shared_reader: Final = lru_cache(maxsize=16)(Reader)
