"""The reading half of the codec: what msgspec read becomes the value that was sent.

Whatever a peer sent, this ends in a value or an exception, in time and memory linear in its length. Nothing of the
user's is called to rebuild a value, but ``__hash__`` and ``__eq__`` of what is a key or a member, and an enum's lookup.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from dirtybus.errors import DecodeError, RemoteProtocolError
from dirtybus.protocol import codec_numpy
from dirtybus.protocol.codec_classes import Resolver, is_rebuildable_dataclass
from dirtybus.protocol.codec_leaves import LEAVES, Code, Leaf, expect
from dirtybus.protocol.codec_packer import MAX_DEPTH

__all__ = ["Reader", "Runs"]

T = TypeVar("T")


class Runs:
    """The out-of-band buffers of one body. Each is taken once: one that is copied often would be a bomb."""

    __slots__ = ("_left",)

    def __init__(self, runs: Sequence[memoryview]) -> None:
        self._left: list[memoryview | None] = [*runs]

    def take(self, index: object) -> memoryview:
        number = expect(int, index)
        run = self._left[number] if number >= 0 else None
        if run is None:
            raise ValueError(f"buffer {number} is not there, or was used before")
        self._left[number] = None
        return run

    def forget(self) -> None:
        """Let the memory go; a reader and its decoder refer to each other, and would keep it for a while."""
        self._left.clear()


_NO_RUNS: Final = Runs(())


class Reader:
    """Decodes what stands inside ``depth`` extension values; without buffers it may be kept and shared.

    Args:
        resolve: finds a class by module and qualified name.
        runs: the body's out-of-band buffers.
        depth: how many extension values are open around.
    """

    __slots__ = ("_deeper", "_depth", "_resolve", "decode", "runs")

    def __init__(self, resolve: Resolver, runs: Runs = _NO_RUNS, depth: int = 0) -> None:
        self.runs = runs
        self._resolve = resolve
        self._depth = depth
        self._deeper: Reader | None = None
        self.decode: Callable[[memoryview], Any] = msgspec.msgpack.Decoder(ext_hook=self._extension).decode

    def find_class(self, module: object, qualname: object) -> type:
        return self._resolve(expect(str, module), expect(str, qualname))

    def _extension(self, code: int, packed: memoryview) -> object:
        build = _BUILDERS.get(code)
        if build is None:
            raise RemoteProtocolError(f"the body has an extension of unknown code {code}")
        # a leaf may still stand in the innermost container
        if self._depth >= MAX_DEPTH and (self._depth > MAX_DEPTH or code in _CONTAINERS):
            raise RemoteProtocolError(f"the body is nested more than {MAX_DEPTH} levels deep")
        inner = self._deeper
        if inner is None:
            inner = self._deeper = Reader(self._resolve, self.runs, self._depth + 1)
        return build(inner, inner.decode(packed))


def _read_tuple(_reader: Reader, plain: Any) -> tuple[object, ...]:
    return tuple(expect(list, plain))


def _hashing(build: Callable[[Any], T], items: Iterable[Any]) -> T:
    """Build a set or dict, which calls ``__hash__`` and ``__eq__`` of what may be the user's classes."""
    try:
        return build(items)
    except (TypeError, ValueError):
        raise  # a member that no peer of ours could have hashed either, or keys and values of unequal number
    except Exception as exc:
        raise DecodeError(f"a member or key failed to be hashed here: {type(exc).__name__}: {exc}") from exc


def _read_set(_reader: Reader, plain: Any) -> set[object]:
    # a set of the stash may hold both 1 and True, of which a set of Python keeps one
    return _hashing(set, expect(list, plain))


def _read_frozenset(reader: Reader, plain: Any) -> frozenset[object]:
    return frozenset(_read_set(reader, plain))


def _read_pairs(_reader: Reader, plain: Any) -> dict[object, object]:
    keys, values = plain
    pairs = _hashing(dict, zip(expect(list, keys), expect(list, values), strict=True))
    if len(pairs) != len(keys):
        raise ValueError("a dict came with the same key twice")
    return pairs


def _read_named_tuple(reader: Reader, plain: Any) -> object:
    module, qualname, items = plain
    kind = reader.find_class(module, qualname)
    fields = getattr(kind, "_fields", None)
    if not issubclass(kind, tuple) or not isinstance(fields, tuple) or len(fields) != len(expect(list, items)):
        raise _other_class(kind, f"a named tuple of {len(items)} fields")
    return tuple.__new__(kind, items)


def _read_dataclass(reader: Reader, plain: Any) -> object:
    module, qualname, state = plain
    kind = reader.find_class(module, qualname)
    if not is_rebuildable_dataclass(kind):
        raise _other_class(kind, "a dataclass")
    try:
        value: object = object.__new__(kind)
        for name, item in expect(dict, state).items():
            if name.startswith("__"):
                raise ValueError(f"{name!r} is no attribute to set")
            object.__setattr__(value, name, item)
    except (TypeError, AttributeError) as exc:
        raise _other_class(kind, f"a dataclass with the fields that were sent ({exc})") from exc
    return value


def _read_enum(reader: Reader, plain: Any) -> object:
    module, qualname, member = plain
    kind = reader.find_class(module, qualname)
    if issubclass(kind, enum.Enum) and isinstance(member, str) and member in kind.__members__:
        return kind.__members__[member]
    if issubclass(kind, enum.Flag) and type(member) is int:
        return _read_flags(kind, member)
    raise _other_class(kind, f"an enum with the member {str(member)[:100]}")


def _read_flags(kind: type[enum.Flag], member: int) -> enum.Flag:
    try:
        return kind(member)
    except Exception as exc:
        raise _other_class(kind, f"an enum with the flags {member:#x}") from exc


def _other_class(kind: type, wanted: str) -> DecodeError:
    shown = f"{kind.__module__}.{kind.__qualname__}"
    return DecodeError(f"{shown} is not {wanted} here; do both sides run the same code?", {"type": shown})


def _read_range(_reader: Reader, plain: Any) -> range:
    start, stop, step = (expect(int, bound) for bound in plain)
    return range(start, stop, step)


def _read_slice(_reader: Reader, plain: Any) -> slice:
    start, stop, step = expect(list, plain)
    return slice(start, stop, step)


def _read_bytes(reader: Reader, plain: Any) -> bytes:
    return bytes(reader.runs.take(plain))


def _read_bytearray(reader: Reader, plain: Any) -> bytearray:
    return bytearray(plain if isinstance(plain, bytes) else reader.runs.take(plain))


def _read_array(reader: Reader, plain: Any) -> object:
    description, slot = plain
    if isinstance(slot, bytes):
        return codec_numpy.read_array(description, bytearray(slot))
    run = reader.runs.take(slot)
    return codec_numpy.read_array(description, bytearray(run) if run.readonly else run)


def _read_scalar(_reader: Reader, plain: Any) -> object:
    return codec_numpy.read_scalar(plain)


_Build = Callable[[Reader, Any], object]


def _leaf_builder(leaf: Leaf) -> _Build:
    return lambda _reader, plain: leaf.read(plain)


_CONTAINERS: Final = frozenset(
    {Code.TUPLE, Code.SET, Code.FROZENSET, Code.PAIRS, Code.NAMED_TUPLE, Code.DATACLASS, Code.SLICE}
)
_BUILDERS: Final[dict[int, _Build]] = {
    Code.TUPLE: _read_tuple,
    Code.SET: _read_set,
    Code.FROZENSET: _read_frozenset,
    Code.PAIRS: _read_pairs,
    Code.NAMED_TUPLE: _read_named_tuple,
    Code.DATACLASS: _read_dataclass,
    Code.ENUM: _read_enum,
    Code.RANGE: _read_range,
    Code.SLICE: _read_slice,
    Code.BYTES: _read_bytes,
    Code.BYTEARRAY: _read_bytearray,
    Code.ARRAY: _read_array,
    Code.SCALAR: _read_scalar,
    **{code: _leaf_builder(leaf) for code, leaf in LEAVES.items()},
}
