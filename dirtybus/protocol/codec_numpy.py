"""numpy arrays and scalars as plain msgpack and one run of bytes. numpy itself is loaded on reading only.

Object arrays never travel, in either direction.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from dirtybus.errors import DecodeError
from dirtybus.protocol.codec_leaves import expect
from dirtybus.protocol.places import Unsendable, unsendable_type

if TYPE_CHECKING:
    from numpy import dtype, generic, ndarray

__all__ = ["is_array", "is_scalar", "read_array", "read_scalar", "write_array", "write_scalar"]

#: Items of no size cost a sender nothing, so their number is bounded apart.
_MAX_EMPTY_ITEMS: Final = 1 << 20
# what dtype.str gives for every kind but objects; anything richer would reach numpy's dtype mini-language
_TYPE_STRING: Final = re.compile(r"[<>|=](?:[biufcmMSUV]\d{1,9})(?:\[\d{0,9}[A-Za-zμ]{1,7}\])?")


def is_array(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and kind is numpy.ndarray


def is_scalar(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy"


def write_array(array: ndarray[Any, Any]) -> tuple[list[object], memoryview]:
    """Return the array's description, and its items as a view of its own memory where that is contiguous.

    Raises:
        Unsendable: its items are objects, or of a type that numpy cannot name.
    """
    np = _numpy()
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    plain = [_write_type(np, array.dtype), order, *array.shape]
    if not array.nbytes:
        return plain, memoryview(b"")
    flat: ndarray[Any, Any] = np.ascontiguousarray(array.T if order == "F" else array).reshape(-1)
    return plain, memoryview(flat.view(np.uint8))


def read_array(plain: list[Any], items: bytearray | memoryview) -> ndarray[Any, Any]:
    """Return the array that lives in ``items``, which are writable.

    Raises:
        DecodeError: numpy is not installed here.
        ValueError, TypeError: the description is malformed, or does not fit the bytes.
    """
    np = _numpy()
    of = _read_type(np, plain[0])
    order, shape = plain[1], tuple(expect(int, size) for size in plain[2:])
    count = math.prod(shape)
    if count * of.itemsize != len(items) or (not of.itemsize and count > _MAX_EMPTY_ITEMS):
        raise ValueError(f"an array of {count} items of {of.itemsize} bytes came with {len(items)} bytes")
    # numpy itself refuses a negative size, too many dimensions and an unknown order
    array: ndarray[Any, Any] = np.ndarray(shape, of, buffer=items, order=order)
    # the sender cannot know where the body will lie in memory
    return array if array.flags.aligned else array.copy(order=order)


def write_scalar(scalar: generic) -> tuple[object, object]:
    """Return a scalar's type and its bytes, or its text where numpy would drop trailing zeros.

    Raises:
        Unsendable: it is of a type that numpy cannot name.
    """
    if isinstance(scalar, str):
        return "U", str.__str__(scalar)
    if isinstance(scalar, bytes):
        return "S", bytes.__getitem__(scalar, slice(None))
    return _write_type(_numpy(), scalar.dtype), scalar.tobytes()


def read_scalar(plain: list[Any]) -> object:
    """Return the scalar that `write_scalar` described.

    Raises:
        DecodeError: numpy is not installed here.
        ValueError, TypeError: the description is malformed.
    """
    np = _numpy()
    description, item = plain
    if description == "U":
        return np.str_(expect(str, item))
    if description == "S":
        return np.bytes_(expect(bytes, item))
    return read_array([description, "C"], bytearray(expect(bytes, item)))[()]


def _write_type(np: Any, of: dtype[Any]) -> object:
    description = _describe(of)
    if _read_type(np, description) != of:
        raise _refusal(of)
    return description


def _refusal(of: dtype[Any]) -> Unsendable:
    return unsendable_type(type(of), "send array.tolist(), or convert with astype() to a type with plain bytes")


def _describe(of: dtype[Any]) -> object:
    """A plain type is its string; a sub-array is [base, sizes]; a structure is its fields, offsets and size."""
    if of.subdtype is not None:
        base, shape = of.subdtype
        return [_describe(base), list(shape)]
    if of.names is None:
        if not _TYPE_STRING.fullmatch(of.str):
            raise _refusal(of)
        return of.str
    fields = [of.fields[name] for name in of.names]  # type: ignore[index]
    formats = [_describe(field[0]) for field in fields]
    offsets = [field[1] for field in fields]
    titles = [field[-1] if len(field) > 2 else None for field in fields]
    described = {"names": list(of.names), "formats": formats, "offsets": offsets, "itemsize": of.itemsize}
    return {**described, "titles": titles} if any(titles) else described


def _read_type(np: Any, plain: Any) -> dtype[Any]:
    if isinstance(plain, str):
        if not _TYPE_STRING.fullmatch(plain):
            raise ValueError(f"{plain[:40]!r} is not a type of numpy that travels")
        made: dtype[Any] = np.dtype(plain)
    elif isinstance(plain, list):
        base, sizes = plain
        made = np.dtype((_read_type(np, base), tuple(expect(int, size) for size in sizes)))
    else:
        fields = {key: plain[key] for key in ("names", "titles") if key in plain}
        formats = [_read_type(np, one) for one in plain["formats"]]
        offsets = [expect(int, offset) for offset in plain["offsets"]]
        itemsize = expect(int, plain["itemsize"])
        made = np.dtype({**fields, "formats": formats, "offsets": offsets, "itemsize": itemsize})
    # over bytes of a peer's choosing, objects would be pointers; the pattern above is what keeps them out
    assert not made.hasobject
    return made


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as exc:
        raise DecodeError("an array arrived, and numpy is not installed here: pip install 'dirtybus[numpy]'") from exc
    return np
