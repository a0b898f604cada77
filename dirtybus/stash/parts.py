"""Lists and sets that change in place: their parts are bytes, and only their kind is known."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from dirtybus.errors import DirtyError, StashError
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.protocol.codec_leaves import Code
from dirtybus.stash.buckets import Buckets

__all__ = ["PART_BYTES", "ListValue", "SetValue", "as_list", "as_set", "list_body"]

#: What a part takes beside its bytes.
PART_BYTES: Final = 64
_PLAIN: Final = b"\x00"
_POSITION: Final = struct.Struct(">Q")
#: Where a list begins: as far from the first position as from the last.
_MIDDLE: Final = 2**63
_encode: Final = msgspec.msgpack.Encoder().encode
_split: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_open_ext: Final = msgspec.msgpack.Decoder(Ext).decode


class ListValue:
    """A list that grows and shrinks at both ends; each item is what msgpack writes for it.

    An item keeps its position for as long as it is there, so a change can be told without telling the whole list.
    """

    __slots__ = ("items", "size_bytes", "start")
    kind: Final = "list"

    def __init__(self, items: Iterable[bytes] = (), start: int = _MIDDLE) -> None:
        self.items = deque(items)
        self.start = start
        self.size_bytes = sum(map(len, self.items)) + PART_BYTES * len(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def push(self, items: Iterable[bytes], *, left: bool = False) -> list[tuple[bytes, bytes]]:
        """Add items at the right end, or at the left one; return their parts."""
        parts: list[tuple[bytes, bytes]] = []
        for item in items:
            if left:
                self.items.appendleft(item)
                self.start -= 1
                position = self.start
            else:
                position = self.start + len(self.items)
                self.items.append(item)
            parts.append((_POSITION.pack(position), item))
            self.size_bytes += len(item) + PART_BYTES
        return parts

    def pop(self, count: int, *, left: bool = True) -> tuple[list[bytes], list[bytes]]:
        """Take up to ``count`` items from the left end, or from the right one; return them, and where they stood."""
        taken: list[bytes] = []
        places: list[bytes] = []
        for _ in range(min(count, len(self.items))):
            if left:
                places.append(_POSITION.pack(self.start))
                taken.append(self.items.popleft())
                self.start += 1
            else:
                taken.append(self.items.pop())
                places.append(_POSITION.pack(self.start + len(self.items)))
            self.size_bytes -= len(taken[-1]) + PART_BYTES
        return taken, places

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Give each item with its position."""
        return ((_POSITION.pack(self.start + index), item) for index, item in enumerate(self.items))

    @classmethod
    def of_parts(cls, parts: Iterable[tuple[bytes, bytes]]) -> ListValue:
        """Make the list whose `parts` these are, in their order."""
        ordered = sorted(parts)
        return cls((item for _, item in ordered), _POSITION.unpack(ordered[0][0])[0] if ordered else _MIDDLE)

    def popitem(self) -> None:
        """Let go of one item, of a list that nobody needs any more."""
        self.items.pop()

    def body(self) -> bytes:
        """Return what the codec would have written for the list."""
        return list_body(self.items)


class SetValue:
    """A set of members, each of them what msgpack writes for it; two are the same when those bytes are."""

    __slots__ = ("members", "size_bytes")
    kind: Final = "set"

    def __init__(self, members: Iterable[bytes] = ()) -> None:
        self.members: Buckets[bytes] = Buckets()
        self.size_bytes = 0
        self.add(members)

    def __len__(self) -> int:
        return len(self.members)

    def add(self, members: Iterable[bytes]) -> list[bytes]:
        """Add members; return those that are new."""
        new = []
        for member in members:
            if member not in self.members:
                self.members.put(member, b"")
                self.size_bytes += len(member) + PART_BYTES
                new.append(member)
        return new

    def remove(self, members: Iterable[bytes]) -> list[bytes]:
        """Remove members; return those that were there."""
        gone = [member for member in members if self.members.pop(member) is not None]
        self.size_bytes -= sum(map(len, gone)) + PART_BYTES * len(gone)
        return gone

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Give each member."""
        return ((member, b"") for member in self.members)

    @classmethod
    def of_parts(cls, parts: Iterable[tuple[bytes, bytes]]) -> SetValue:
        """Make the set whose `parts` these are."""
        return cls(member for member, _ in parts)

    def popitem(self) -> None:
        """Let go of one member, of a set that nobody needs any more."""
        self.members.popitem()

    def body(self) -> bytes:
        """Return what the codec would have written for the set."""
        packed = b"".join((_array_header(len(self.members)), *self.members))
        return _PLAIN + _encode(Ext(Code.SET, packed))


def list_body(items: Collection[bytes]) -> bytes:
    """Return what the codec would have written for a list of these items."""
    return b"".join((_PLAIN, _array_header(len(items)), *items))


def as_list(body: bytes, place: str) -> ListValue:
    """Return the list that a body holds, its items apart.

    Raises:
        StashError: the value is no list, or holds large arrays of a class that is not loaded here.
    """
    if body.startswith(_PLAIN):
        try:
            return ListValue(map(bytes, _split(memoryview(body)[1:])))
        except msgspec.DecodeError:
            raise StashError(f"{place} is no list, so nothing can be pushed to it or popped from it") from None
    return ListValue(_rewritten(body, list, place))


def as_set(body: bytes, place: str) -> SetValue:
    """Return the set that a body holds, its members apart.

    Raises:
        StashError: as `as_list`.
    """
    if body.startswith(_PLAIN):
        try:
            extension = _open_ext(memoryview(body)[1:])
            members = _split(extension.data) if extension.code == Code.SET else None
        except msgspec.DecodeError:
            members = None
        if members is None:
            raise StashError(f"{place} is no set, so nothing can be added to it or removed from it")
        return SetValue(map(bytes, members))
    return SetValue(_rewritten(body, set, place))


def _rewritten(body: bytes, kind: type[list[Any] | set[Any]], place: str) -> list[bytes]:
    """Return the parts of a body whose large buffers stand beside the rest."""
    try:
        value = decode_body(body)
    except DirtyError as exc:
        raise StashError(f"{place} cannot be taken apart here; store it part by part instead: {exc}") from exc
    if type(value) is not kind:
        raise StashError(f"{place} is no {kind.__name__} but a {type(value).__name__}")
    return [encode_whole(part)[1:] for part in value]


def _array_header(count: int) -> bytes:
    if count < 16:
        return bytes([0x90 | count])
    return struct.pack(">BH", 0xDC, count) if count < 2**16 else struct.pack(">BI", 0xDD, count)
