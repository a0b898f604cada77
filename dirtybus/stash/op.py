"""One operation on the tables as a plain value, and what it comes to. Knows no port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from dirtybus.errors import StashError
from dirtybus.shared_memory import SharedRef
from dirtybus.stash.entry import FOREVER, Entry, Stored
from dirtybus.stash.key import key_shown
from dirtybus.stash.note import PlainChange
from dirtybus.stash.parts import ListValue, SetValue

if TYPE_CHECKING:
    from dirtybus.stash.all_tables import StashTables
    from dirtybus.stash.one_table import Table

__all__ = [
    "MISSING",
    "MOST_AT_ONCE",
    "Op",
    "StashReply",
    "body_of",
    "check_count",
    "check_spans",
    "new_entry",
    "place_of",
    "renewed",
]

#: How many keys, items or operations one operation may be about: the owner's loop waits meanwhile.
MOST_AT_ONCE: Final = 10_000


class Op(msgspec.Struct, frozen=True, array_like=True):
    """Base of all operations. Keys are the bytes of `key_bytes`, values are encoded bodies.

    ``expires_in_s`` of None is as the table says, infinity is never; so is ``idle_s``.
    """

    #: whether it may change anything
    writes: ClassVar[bool] = True

    @property
    def weight(self) -> int:
        """How many keys, items or operations it is about."""
        return 1

    @property
    def longest_wait_s(self) -> float:
        """How long it may have to wait before it is carried out; 0: not at all."""
        return 0.0

    def apply(self, tables: StashTables, now: float) -> StashReply:
        """Carry it out. It is done wholly or, when this raises, not at all.

        Raises:
            StashError: what the tables refused.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show what it is, never what it holds."""
        size = sum(len(part) for part in msgspec.structs.astuple(self) if isinstance(part, bytes))
        return f"<{type(self).__name__} {getattr(self, 'table', '')!r} of {size} bytes>"


class StashReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operation came to.

    ``is_true`` answers what the operation asks: was it there, was it made, did it happen. Each other field holds what
    the operation returns, and is empty where it returns no such thing.
    """

    is_true: bool = True
    value: bytes | None = None
    #: the value, when it is large and whoever asks takes it so
    shared: SharedRef | None = None
    #: the value could not be had by reference; it has to be sent
    wants_bytes: bool = False
    version: int = 0
    count: int = 0
    keys: tuple[bytes, ...] = ()
    values: tuple[bytes | None, ...] = ()
    names: tuple[str, ...] = ()
    #: where the next page begins; None: there is none
    cursor: tuple[int, int] | None = None
    span_s: float | None = None
    #: how long each entry of a page still lives, and how long unused; infinity: for ever
    spans: tuple[tuple[float, float], ...] = ()
    info: Mapping[str, Any] | None = None
    changes: tuple[PlainChange, ...] = ()
    #: of each operation of a transaction
    replies: tuple[StashReply, ...] = ()

    def __repr__(self) -> str:
        """Show what it is, never what it holds."""
        value = "" if self.value is None else f" value of {len(self.value)} bytes"
        return f"<StashReply {self.is_true}{value} count {self.count}, {len(self.keys)} keys>"


#: There is no such key.
MISSING: Final = StashReply(is_true=False)


def body_of(value: Stored) -> bytes:
    """Return the encoded body of what is stored."""
    if isinstance(value, bytes):
        return value
    return value.body() if isinstance(value, ListValue | SetValue) else value.read_bytes()


def new_entry(
    table: Table, value: Stored, now: float, expires_in_s: float | None = None, idle_s: float | None = None
) -> Entry:
    """Return an entry with the spans asked for, or with the table's."""
    rules = table.rules
    ttl_s = _span(expires_in_s, rules.expires_in_s)
    # one infinity for all: another of each sum would take 32 bytes in each entry
    expires_at = FOREVER if ttl_s == FOREVER else now + ttl_s
    return Entry(value, table.book.next_version(), expires_at, ttl_s, _span(idle_s, rules.idle_s))


def renewed(table: Table, old: Entry, value: Stored) -> Entry:
    """Return the entry that takes the place of ``old`` and lives as long as that would have."""
    return Entry(value, table.book.next_version(), old.expires_at, old.ttl_s, old.idle_s)


def place_of(table: str, key: bytes) -> str:
    """Return how a message speaks of what stands under a key."""
    return f"what stands under {key_shown(key)} in table {table!r}"


def check_count(count: int, what: str) -> None:
    """Raise StashError if one operation is about too much."""
    if count > MOST_AT_ONCE:
        raise StashError(f"one operation takes at most {MOST_AT_ONCE} {what}, not {count}; send several")


def check_spans(expires_in_s: float | None, idle_s: float | None = None) -> None:
    """Raise StashError if a span is none: whoever asks may not have checked it."""
    for what, span_s in (("expires_in", expires_in_s), ("idle", idle_s)):
        if span_s is not None and not span_s > 0:  # so is nan
            raise StashError(f"{what} must be more than 0 s, not {span_s}; infinity is for ever")


def _span(asked_s: float | None, ruled_s: float | None) -> float:
    if asked_s is not None:
        return asked_s
    return FOREVER if ruled_s is None else ruled_s
