"""One change of the tables, as it is noted for those who follow, and as they are told."""

from __future__ import annotations

from typing import Literal

import msgspec

from dirtybus.stash.entry import Entry

__all__ = ["ChangeKind", "Note", "PlainChange"]

#: ``cleared`` and ``dropped`` are told of a whole table, not of each of its keys; ``ruled``: the table was made,
#: or got other rules.
ChangeKind = Literal["put", "deleted", "expired", "evicted", "cleared", "dropped", "ruled"]


class Note(msgspec.Struct, gc=False):
    """One change of one key; ``key`` is None for a whole table.

    ``entry`` is what stands there now. Of a collection that changed in place, the parts that came and went are given;
    otherwise it `is_whole`.
    """

    kind: ChangeKind
    table: str
    key: bytes | None
    version: int
    entry: Entry | None = None
    parts_put: list[tuple[bytes, bytes]] | tuple[()] = ()
    parts_gone: list[bytes] | tuple[()] = ()
    is_whole: bool = True
    #: of a table that was dropped, whether the bus was told of its changes
    was_told: bool = False


class PlainChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change as others are told of it; ``key`` is None when it is of the whole table."""

    kind: ChangeKind
    key: bytes | None
    version: int
