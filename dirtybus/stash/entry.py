"""What stands under one key: its value, its version, and how long it stays. Opens no value."""

from __future__ import annotations

import math
from typing import Final, Protocol

import msgspec

from dirtybus.stash.parts import ListValue, SetValue

__all__ = ["ENTRY_BYTES", "FOREVER", "Entry", "LargeBody", "Stored", "is_large", "size_of"]

FOREVER: Final = math.inf
#: What an entry takes beside its key and value, rounded up; limits count it. Measured with a million small ones in
#: CPython 3.11 on 64 bits: 233 bytes, and 339 when it expires.
ENTRY_BYTES: Final = 352
#: A collection with more parts than this is let go of bit by bit.
_LARGE_PARTS: Final = 4096


class LargeBody(Protocol):
    """An encoded body that is kept outside of this process's own memory."""

    size_bytes: int

    def read_bytes(self) -> bytes:
        """Return a copy of it."""


#: An encoded body, or a collection that changes in place.
Stored = bytes | ListValue | SetValue | LargeBody


class Entry(msgspec.Struct, gc=False):
    """One entry. Whoever writes the key puts a new one, except that a collection's changes in place.

    ``ttl_s`` is what it was given to live, ``expires_at`` when that ends, ``idle_s`` how long it stays unused.
    ``alarm_at`` is when the table will look at it next: at its end, or before.
    """

    value: Stored
    version: int
    expires_at: float = FOREVER
    ttl_s: float = FOREVER
    idle_s: float = FOREVER
    used_at: float = 0.0
    alarm_at: float = FOREVER

    @property
    def due_at(self) -> float:
        """When the entry goes, unless it is used or touched before."""
        return min(self.expires_at, self.used_at + self.idle_s)


def size_of(value: Stored) -> int:
    """Return how many bytes a value takes."""
    return len(value) if type(value) is bytes else value.size_bytes  # type: ignore[union-attr]


def is_large(value: Stored) -> bool:
    """Whether letting go of it at once takes long."""
    return isinstance(value, ListValue | SetValue) and len(value) > _LARGE_PARTS
