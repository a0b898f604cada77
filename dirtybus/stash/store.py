"""Where tables outlive their owner: what a store must do, and the records it is given. Knows no tables and no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from dirtybus.stash.entry import LargeBody

__all__ = ["Change", "Clear", "Define", "Drop", "Erase", "Kind", "Row", "StashStore", "Upsert"]


#: of a value: whole, or a collection of that kind
Kind = Literal["value", "list", "set"]


class Row(msgspec.Struct, frozen=True):
    """What is known of one key, without the parts of a collection.

    ``value`` is None for a collection, and where it stays as it is; a large one may still be outside of this process's
    own memory. ``expires_at`` is a moment of the wall clock, as `time.time` gives it; ``ttl_s``
    is what the entry was given to live, so that a clock that was set back does not lengthen it. Infinity: never.
    """

    table: str
    key: bytes
    value: bytes | LargeBody | None
    kind: Kind
    version: int
    expires_at: float
    ttl_s: float
    idle_s: float


class Upsert(msgspec.Struct, frozen=True):
    """The row of a key as it is now, and the parts of its collection that came and went.

    A part is a place and what stands there: of a list 8 bytes that sort as the items do, of a set the member. With
    ``is_new``, all earlier parts of the key go first.
    """

    row: Row
    parts_put: tuple[tuple[bytes, bytes], ...] = ()
    parts_gone: tuple[bytes, ...] = ()
    is_new: bool = False

    @property
    def keeps_value(self) -> bool:
        """Whether this is of a whole value that stays as it is, while its version and spans are others."""
        return self.row.kind == "value" and self.row.value is None


class Erase(msgspec.Struct, frozen=True):
    """The key is gone."""

    table: str
    key: bytes


class Clear(msgspec.Struct, frozen=True):
    """Every key of the table is gone; the table stays."""

    table: str


class Drop(msgspec.Struct, frozen=True):
    """The table is gone, with its keys."""

    table: str


class Define(msgspec.Struct, frozen=True):
    """There is such a table, and these are its rules, as bytes that nobody here opens."""

    table: str
    rules: bytes


Change = Upsert | Erase | Clear | Drop | Define


class StashStore(Protocol):
    """Keeps tables for the time without an owner. Used by one thread at a time."""

    #: no change had a higher version when the store was last written; 0 before the first
    version: int

    def open(self) -> None:
        """Get hold of what was kept, for us alone.

        Raises:
            StashError: it cannot be had, is damaged, or another owner has it; the message names it and the remedy.
        """

    def load(self) -> Iterator[Sequence[Define | Upsert]]:
        """Give all that is kept, in batches of bounded size: each table before its rows, a collection in pieces.

        The first piece of a collection `is_new`. Rows that have expired may be among them.

        Raises:
            StashError: it is damaged.
        """

    def write(self, batch: Sequence[Change], version: int, *, is_durable: bool) -> None:
        """Take over changes in their order, all of them or none; with ``is_durable``, return when they are on disk.

        Raises:
            StashError: they could not be written, and nothing was.
        """

    def close(self) -> None:
        """Let go of it. May be called twice."""
