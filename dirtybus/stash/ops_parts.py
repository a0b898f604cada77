"""The operations on lists and sets: parts come and go without the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dirtybus.errors import StashError
from dirtybus.stash.batch import on_made
from dirtybus.stash.entry import Entry
from dirtybus.stash.note import Note
from dirtybus.stash.op import MISSING, Op, StashReply, body_of, check_count, check_spans, new_entry, place_of, renewed
from dirtybus.stash.parts import PART_BYTES, ListValue, SetValue, as_list, as_set, list_body

if TYPE_CHECKING:
    from dirtybus.stash.all_tables import StashTables
    from dirtybus.stash.one_table import Table

__all__ = ["Add", "PopItems", "Push", "Remove", "Size"]


class Push(Op, frozen=True, tag="push"):
    """Add items to a list, at its right end or its left one; make it if it is not there. ``count``: its new length.

    A list that is made gets the spans; one that is there keeps its own. Items are what msgpack writes for each.
    """

    table: str
    key: bytes
    items: tuple[bytes, ...]
    is_left: bool = False
    expires_in_s: float | None = None
    idle_s: float | None = None

    @property
    def weight(self) -> int:
        return len(self.items)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.items), "items")
        check_spans(self.expires_in_s, self.idle_s)
        return on_made(tables, self.table, self._push, now)

    def _push(self, table: Table, now: float) -> StashReply:
        entry = table.find(self.key, now)
        if entry is None:
            value = ListValue()
            value.push(self.items, left=self.is_left)
            entry = new_entry(table, value, now, self.expires_in_s, self.idle_s)
            table.put(self.key, entry, now)
            return StashReply(count=len(value), version=entry.version)
        if type(entry.value) is bytes:  # taken apart first, which is taken back when the items do not fit
            return table.book.all_or_nothing(lambda: self._grow(table, entry, now))
        return self._grow(table, entry, now)

    def _grow(self, table: Table, entry: Entry, now: float) -> StashReply:
        entry, value = _list(table, self.key, entry, now)
        grown = sum(map(len, self.items)) + PART_BYTES * len(self.items)
        table.check_growth(self.key, grown, now)
        parts = value.push(self.items, left=self.is_left)
        note = Note("put", table.name, self.key, table.book.next_version(), entry, parts, is_whole=False)

        def take_back() -> None:
            value.pop(len(parts), left=self.is_left)

        table.change_parts(self.key, entry, grown, take_back, now, note)
        return StashReply(count=len(value), version=entry.version)


class PopItems(Op, frozen=True, tag="pop_items"):
    """Take up to ``count`` items from an end of a list; ``value``: the list of them. An empty list stays."""

    table: str
    key: bytes
    count: int = 1
    is_left: bool = True

    @property
    def weight(self) -> int:
        return self.count

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(self.count, "items")
        if self.count < 1:
            raise StashError(f"the number of items to pop is at least 1, not {self.count}")
        found = _found(tables, self.table, self.key, now)
        if found is None:
            return MISSING
        table, entry = found
        entry, value = _list(table, self.key, entry, now)
        taken, places = value.pop(self.count, left=self.is_left)
        if not taken:
            return MISSING
        shrunk = sum(map(len, taken)) + PART_BYTES * len(taken)
        note = Note("put", table.name, self.key, table.book.next_version(), entry, parts_gone=places, is_whole=False)

        def take_back() -> None:
            value.push(reversed(taken), left=self.is_left)

        table.change_parts(self.key, entry, -shrunk, take_back, now, note)
        return StashReply(value=list_body(taken), count=len(taken), version=entry.version)


class Add(Op, frozen=True, tag="add"):
    """Add members to a set, making it if it is not there; ``count``: how many are new. Spans are as with `Push`."""

    table: str
    key: bytes
    members: tuple[bytes, ...]
    expires_in_s: float | None = None
    idle_s: float | None = None

    @property
    def weight(self) -> int:
        return len(self.members)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.members), "members")
        check_spans(self.expires_in_s, self.idle_s)
        return on_made(tables, self.table, self._add, now)

    def _add(self, table: Table, now: float) -> StashReply:
        entry = table.find(self.key, now)
        if entry is None:
            value = SetValue(self.members)
            entry = new_entry(table, value, now, self.expires_in_s, self.idle_s)
            table.put(self.key, entry, now)
            return StashReply(count=len(value), version=entry.version)
        if type(entry.value) is bytes:  # as with `Push`
            return table.book.all_or_nothing(lambda: self._grow(table, entry, now))
        return self._grow(table, entry, now)

    def _grow(self, table: Table, entry: Entry, now: float) -> StashReply:
        entry, value = _set(table, self.key, entry, now)
        new = [member for member in dict.fromkeys(self.members) if member not in value.members]
        grown = sum(map(len, new)) + PART_BYTES * len(new)
        table.check_growth(self.key, grown, now)
        added = value.add(new)
        if added:
            version = table.book.next_version()
            parts = [(member, b"") for member in added]
            note = Note("put", table.name, self.key, version, entry, parts, is_whole=False)
            table.change_parts(self.key, entry, grown, lambda: value.remove(added), now, note)
        return StashReply(is_true=bool(added), count=len(added), version=entry.version)


class Remove(Op, frozen=True, tag="remove"):
    """Remove members from a set; ``count``: how many were in it. An empty set stays."""

    table: str
    key: bytes
    members: tuple[bytes, ...]

    @property
    def weight(self) -> int:
        return len(self.members)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.members), "members")
        found = _found(tables, self.table, self.key, now)
        if found is None:
            return MISSING
        table, entry = found
        entry, value = _set(table, self.key, entry, now)
        gone = value.remove(self.members)
        shrunk = sum(map(len, gone)) + PART_BYTES * len(gone)
        if gone:
            version = table.book.next_version()
            note = Note("put", table.name, self.key, version, entry, parts_gone=gone, is_whole=False)
            table.change_parts(self.key, entry, -shrunk, lambda: value.add(gone), now, note)
        return StashReply(is_true=bool(gone), count=len(gone), version=entry.version)


class Size(Op, frozen=True, tag="size"):
    """How many items a list, or members a set, has; 0 if it is not there."""

    writes = False

    table: str
    key: bytes

    def apply(self, tables: StashTables, now: float) -> StashReply:
        table = tables.find(self.table)
        entry = None if table is None else table.find(self.key, now)
        if table is None or entry is None:
            return MISSING
        value = entry.value
        if isinstance(value, ListValue | SetValue):
            return StashReply(count=len(value), version=entry.version)
        return StashReply(count=_count_parts(body_of(value), place_of(self.table, self.key)), version=entry.version)


def _found(tables: StashTables, name: str, key: bytes, now: float) -> tuple[Table, Entry] | None:
    if tables.find(name) is None:
        return None
    table = tables.made(name)
    entry = table.find(key, now)
    return None if entry is None else (table, entry)


def _list(table: Table, key: bytes, entry: Entry, now: float) -> tuple[Entry, ListValue]:
    """Return the entry with its list taken apart; that is done once, and costs time by its length."""
    if isinstance(entry.value, ListValue):
        return entry, entry.value
    value = as_list(_body(entry, "list", table, key), place_of(table.name, key))
    return _taken_apart(table, key, entry, value, now), value


def _set(table: Table, key: bytes, entry: Entry, now: float) -> tuple[Entry, SetValue]:
    if isinstance(entry.value, SetValue):
        return entry, entry.value
    value = as_set(_body(entry, "set", table, key), place_of(table.name, key))
    return _taken_apart(table, key, entry, value, now), value


def _taken_apart(table: Table, key: bytes, entry: Entry, value: ListValue | SetValue, now: float) -> Entry:
    apart = renewed(table, entry, value)
    table.put(key, apart, now)
    return apart


def _body(entry: Entry, wanted: str, table: Table, key: bytes) -> bytes:
    if not isinstance(entry.value, ListValue | SetValue):
        return body_of(entry.value)
    raise StashError(f"{place_of(table.name, key)} is a {entry.value.kind}, not a {wanted}")


def _count_parts(body: bytes, place: str) -> int:
    try:
        return len(as_list(body, place))
    except StashError:
        return len(as_set(body, place))
