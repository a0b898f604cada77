"""The writing half of the codec: a value becomes one that msgspec writes, without its silent conversions.

msgspec writes a tuple as an array, an enum as its value, a date as text: each would come back as something else. So
each type is looked up here by its exact class first, and what is not plain is wrapped as an extension.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from dirtybus.protocol import codec_numpy
from dirtybus.protocol.codec_classes import is_rebuildable_dataclass, name_of, state_of
from dirtybus.protocol.codec_leaves import LEAF_TYPES, Code, Leaf, leaf_of
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.places import Unsendable, remedy_for, step_to_key, unsendable_type

__all__ = ["MAX_DEPTH", "OUT_OF_BAND_BYTES", "PLAIN", "Packer", "encode"]

#: Containers within containers; a list that holds itself meets this bound too.
MAX_DEPTH: Final = 200
#: Bytes and arrays from this size on are not copied into the message but written beside it.
OUT_OF_BAND_BYTES: Final = 64 * 1024

encode: Final = msgspec.msgpack.Encoder().encode

#: What msgspec writes as it is, unless an int is too long or a str holds a lone surrogate: then it raises.
PLAIN: Final = frozenset({type(None), bool, int, float, str})
# In these, msgspec finds nothing to object to: any int may be too long for it, any str hold a lone surrogate.
_SURELY_PLAIN: Final = frozenset({type(None), bool, float})
#: From here on, looking at all types at once beats a loop.
_MANY_ITEMS: Final = 32
_NATIVE_INTS: Final = range(-(2**63), 2**64)


def _all_of(kinds: frozenset[type], items: Collection[object]) -> bool:
    """Whether each of many items is exactly of one of ``kinds``, at C speed."""
    first = type(next(iter(items)))
    if first not in kinds:
        return False
    types = [*map(type, items)]
    return types.count(first) == len(types) or kinds.issuperset(types)


class Packer:
    """Packs one body.

    ``buffers`` is what goes out of band: views of the caller's memory, not copies. Of the types in ``as_is``, values
    stay what they are.

    Args:
        careful: look at each int and str. Without it msgspec's OverflowError or UnicodeEncodeError may come up, and
            the body must be packed again with care.
        whole: let nothing go out of band.
    """

    __slots__ = ("as_is", "buffers", "out_of_band_bytes")

    def __init__(self, *, careful: bool = False, whole: bool = False) -> None:
        self.buffers: list[Buffer] = []
        self.out_of_band_bytes = sys.maxsize if whole else OUT_OF_BAND_BYTES
        self.as_is = _SURELY_PLAIN if careful else PLAIN

    def pack(self, value: object, depth: int = 0) -> object:
        """Return what msgspec shall write for ``value``, which stands inside ``depth`` containers.

        Raises:
            Unsendable: it holds something that would not come back equal and of the same type.
        """
        kind = type(value)
        if kind in self.as_is:
            return value
        return (_PACKERS.get(kind) or _packer_of(kind))(self, value, depth)

    def items(self, items: list[object] | tuple[object, ...], depth: int) -> Collection[object]:
        """Pack what a list or tuple holds, itself inside ``depth`` others; return it untouched when all is plain."""
        if depth >= MAX_DEPTH:
            raise _too_deep()
        as_is = self.as_is
        if len(items) >= _MANY_ITEMS and _all_of(as_is, items):
            return items
        for item in items:
            if type(item) not in as_is:
                return self._replaced(items, depth + 1)
        return items

    def _replaced(self, items: list[object] | tuple[object, ...], depth: int) -> Collection[object]:
        as_is = self.as_is
        replaced: list[object] = []
        add = replaced.append
        try:
            for item in items:
                kind = type(item)
                # what `pack` does, in place: few Python frames a level, so that MAX_DEPTH fits the stack
                add(item if kind in as_is else (_PACKERS.get(kind) or _packer_of(kind))(self, item, depth))
        except Unsendable as refusal:
            refusal.inside(f"[{len(replaced)}]")
            raise
        return replaced

    def each(self, items: Iterable[object], depth: int, step: str) -> list[object]:
        """Pack items one by one; ``step`` is how an error names the way to one, by its index."""
        depth = _deeper(depth)
        packed: list[object] = []
        try:
            for item in items:
                packed.append(self.pack(item, depth))  # noqa: PERF401 - the place needs what was packed so far
        except Unsendable as refusal:
            refusal.inside(step.format(len(packed)))
            raise
        return packed

    def values(self, entries: dict[Any, object], depth: int, step: Callable[[Any], str]) -> dict[Any, object]:
        """Pack the values of a dict; ``step`` is how an error names the way to one, by its key."""
        _deeper(depth)
        as_is = self.as_is
        odd = [key for key, item in entries.items() if type(item) not in as_is]
        return self.values_at(odd, entries, depth, step) if odd else entries

    def values_at(
        self, keys: list[Any], entries: dict[Any, object], depth: int, step: Callable[[Any], str]
    ) -> dict[Any, object]:
        """Pack those values of a dict that are not plain; they stand inside ``depth`` containers and this dict."""
        depth = _deeper(depth)
        changed: dict[object, object] = {}
        key: object = None
        try:
            for key in keys:
                item = entries[key]
                kind = type(item)
                packed = (_PACKERS.get(kind) or _packer_of(kind))(self, item, depth)
                if packed is not item:
                    changed[key] = packed
        except Unsendable as refusal:
            refusal.inside(step(key))
            raise
        return {**entries, **changed} if changed else entries

    def slot(self, run: Buffer) -> bytes | int:
        """Return a run of bytes itself when short, or its number among the buffers."""
        if len(run) < self.out_of_band_bytes:
            return bytes(run)
        self.buffers.append(run)
        return len(self.buffers) - 1


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise _too_deep()
    return depth + 1


def _too_deep() -> Unsendable:
    return Unsendable(f"nested more than {MAX_DEPTH} levels deep, or in a circle; flatten it")


def _step_to_attribute(name: str) -> str:
    return f".{name}"


_Pack = Callable[[Packer, Any, int], object]


def _pack_tuple(packer: Packer, value: tuple[object, ...], depth: int) -> Ext:
    return Ext(Code.TUPLE, encode(packer.items(value, depth)))


def _pack_set(packer: Packer, value: set[object], depth: int) -> Ext:
    return Ext(Code.SET, encode(packer.each(value, depth, "<member {}>")))


def _pack_frozenset(packer: Packer, value: frozenset[object], depth: int) -> Ext:
    return Ext(Code.FROZENSET, encode(packer.each(value, depth, "<member {}>")))


def _pack_dict(packer: Packer, value: dict[object, object], depth: int) -> object:
    if depth >= MAX_DEPTH:
        raise _too_deep()
    as_is = packer.as_is
    if len(value) >= _MANY_ITEMS and _all_of(as_is, value) and _all_of(as_is, value.values()):
        return value
    odd: list[object] = []
    for key, item in value.items():
        if type(key) not in as_is:
            return _pack_pairs(packer, value, depth)
        if type(item) not in as_is:
            odd.append(key)
    return packer.values_at(odd, value, depth, step_to_key) if odd else value


def _pack_pairs(packer: Packer, value: dict[object, object], depth: int) -> Ext:
    keys = packer.each(value, depth, ".keys()[{}]")
    return Ext(Code.PAIRS, encode([keys, [*packer.values(value, depth, step_to_key).values()]]))


def _pack_named_tuple(packer: Packer, value: Any, depth: int) -> Ext:
    kind = type(value)
    if getattr(value, "__dict__", None) or len(value) != len(kind._fields):
        raise unsendable_type(kind, "it holds more than its fields; use a dataclass")
    items = packer.values(dict(zip(kind._fields, value, strict=True)), depth, _step_to_attribute)
    return Ext(Code.NAMED_TUPLE, encode([*name_of(kind), [*items.values()]]))


def _pack_dataclass(packer: Packer, value: object, depth: int) -> Ext:
    name = name_of(type(value))
    return Ext(Code.DATACLASS, encode([*name, packer.values(state_of(value), depth, _step_to_attribute)]))


def _pack_enum(packer: Packer, value: enum.Enum, depth: int) -> Ext:
    kind = type(value)
    # a combination of flags has a name, but is no member of that name
    if kind.__members__.get(value._name_) is value:
        return Ext(Code.ENUM, encode([*name_of(kind), value._name_]))
    if isinstance(value, enum.Flag):
        return Ext(Code.ENUM, encode([*name_of(kind), packer.pack(value._value_, depth)]))
    raise unsendable_type(kind, "it is no member of its enum")


def _pack_range(packer: Packer, value: range, depth: int) -> Ext:
    return Ext(Code.RANGE, encode(packer.each((value.start, value.stop, value.step), depth, "")))


def _pack_slice(packer: Packer, value: slice, depth: int) -> Ext:
    bounds = packer.each((value.start, value.stop, value.step), depth, "<bound {}>")
    return Ext(Code.SLICE, encode(bounds))


def _pack_int(packer: Packer, value: int, depth: int) -> object:
    return value if value in _NATIVE_INTS else _PACK_LONG_INT(packer, value, depth)


def _pack_str(packer: Packer, value: str, depth: int) -> object:
    try:
        value.encode()
    except UnicodeEncodeError:
        return _PACK_ODD_STR(packer, value, depth)
    return value


def _pack_bytes(packer: Packer, value: bytes, _depth: int) -> object:
    return value if len(value) < packer.out_of_band_bytes else Ext(Code.BYTES, encode(packer.slot(value)))


def _pack_bytearray(packer: Packer, value: bytearray, _depth: int) -> Ext:
    return Ext(Code.BYTEARRAY, encode(packer.slot(memoryview(value))))


def _pack_array(packer: Packer, value: Any, depth: int) -> Ext:
    description, run = codec_numpy.write_array(value)
    return Ext(Code.ARRAY, encode([packer.pack(description, depth), packer.slot(run)]))


def _pack_scalar(packer: Packer, value: Any, depth: int) -> Ext:
    return Ext(Code.SCALAR, encode(packer.each(codec_numpy.write_scalar(value), depth, "")))


def _leaf_packer(leaf: Leaf) -> _Pack:
    return lambda _packer, value, _depth: Ext(leaf.code, encode(leaf.write(value)))


def _packer_of(kind: type) -> _Pack:
    """Return how to pack a class that is in no table: a leaf, the user's own, numpy's.

    Raises:
        Unsendable: there is no way.
    """
    leaf = leaf_of(kind)
    if leaf is not None:
        return _leaf_packer(leaf)
    if issubclass(kind, enum.Enum):
        return _pack_enum
    if is_rebuildable_dataclass(kind):
        return _pack_dataclass
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return _pack_named_tuple
    if codec_numpy.is_array(kind):
        return _pack_array
    if codec_numpy.is_scalar(kind):
        return _pack_scalar
    raise unsendable_type(kind, remedy_for(kind))


_PACK_LONG_INT: Final = _leaf_packer(LEAF_TYPES[int])
_PACK_ODD_STR: Final = _leaf_packer(LEAF_TYPES[str])
_PACKERS: Final[dict[type, _Pack]] = {
    list: Packer.items,
    tuple: _pack_tuple,
    dict: _pack_dict,
    set: _pack_set,
    frozenset: _pack_frozenset,
    # met only by a careful packer, for these two
    int: _pack_int,
    str: _pack_str,
    bytes: _pack_bytes,
    bytearray: _pack_bytearray,
    range: _pack_range,
    slice: _pack_slice,
}
_PACKERS.update({leaf_type: _leaf_packer(leaf) for leaf_type, leaf in LEAF_TYPES.items() if leaf_type not in _PACKERS})
