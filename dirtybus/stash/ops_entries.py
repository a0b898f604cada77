"""The operations on one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dirtybus.errors import DirtyError, StashError
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.shared_memory import SharedBody, SharedRef
from dirtybus.stash.batch import on_made
from dirtybus.stash.entry import FOREVER, Entry, Stored
from dirtybus.stash.op import MISSING, Op, StashReply, body_of, check_spans, new_entry, place_of, renewed
from dirtybus.stash.parts import SetValue, as_set

if TYPE_CHECKING:
    from dirtybus.stash.all_tables import StashTables
    from dirtybus.stash.one_table import Table

__all__ = ["Cas", "Delete", "Exists", "Get", "Incr", "Pop", "Put", "PutShared", "SetDefault", "Touch", "Ttl"]

_DONE: Final = StashReply()


class Put(Op, frozen=True, tag="put"):
    """Store a value; ``version`` is what it has now."""

    table: str
    key: bytes
    value: bytes
    expires_in_s: float | None = None
    idle_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_spans(self.expires_in_s, self.idle_s)
        return on_made(tables, self.table, self._put, now)

    def _put(self, table: Table, now: float) -> StashReply:
        entry = new_entry(table, self.value, now, self.expires_in_s, self.idle_s)
        table.put(self.key, entry, now)
        return StashReply(version=entry.version)


class PutShared(Op, frozen=True, tag="put_shared"):
    """As `Put`, of a value that is too large to be sent. ``wants_bytes``: it could not be had; nothing was done."""

    table: str
    key: bytes
    shared: SharedRef
    expires_in_s: float | None = None
    idle_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        body = SharedBody.open(self.shared)
        if body is None:
            return StashReply(is_true=False, wants_bytes=True)
        table = tables.made(self.table)
        entry = new_entry(table, body, now, self.expires_in_s, self.idle_s)
        table.put(self.key, entry, now)
        return StashReply(version=entry.version)


class Get(Op, frozen=True, tag="get"):
    """Ask for a value and its version; ``takes_shared``: a large one may be given by reference."""

    writes = False

    table: str
    key: bytes
    takes_shared: bool = False

    def apply(self, tables: StashTables, now: float) -> StashReply:
        table = tables.find(self.table)
        entry = None if table is None else table.find(self.key, now)
        if entry is None:
            return MISSING
        if self.takes_shared and isinstance(entry.value, SharedBody):
            return StashReply(shared=entry.value.ref(), version=entry.version)
        return StashReply(value=body_of(entry.value), version=entry.version)


class Pop(Op, frozen=True, tag="pop"):
    """Remove an entry and return its value."""

    table: str
    key: bytes

    def apply(self, tables: StashTables, now: float) -> StashReply:
        entry = _deleted(tables, self.table, self.key, now)
        return MISSING if entry is None else StashReply(value=body_of(entry.value), version=entry.version)


class SetDefault(Op, frozen=True, tag="setdefault"):
    """Ask for a value, storing one first if there is none; ``is_true``: it was there."""

    table: str
    key: bytes
    value: bytes
    expires_in_s: float | None = None
    idle_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_spans(self.expires_in_s, self.idle_s)
        return on_made(tables, self.table, self._set, now)

    def _set(self, table: Table, now: float) -> StashReply:
        entry = table.find(self.key, now)
        if entry is not None:
            return StashReply(value=body_of(entry.value), version=entry.version)
        entry = new_entry(table, self.value, now, self.expires_in_s, self.idle_s)
        table.put(self.key, entry, now)
        return StashReply(is_true=False, value=self.value, version=entry.version)


class Delete(Op, frozen=True, tag="delete"):
    """Remove an entry; ``is_true``: it was there."""

    table: str
    key: bytes

    def apply(self, tables: StashTables, now: float) -> StashReply:
        return MISSING if _deleted(tables, self.table, self.key, now) is None else _DONE


class Exists(Op, frozen=True, tag="exists"):
    """Whether the table has the key; without a key, whether there is such a table."""

    writes = False

    table: str
    key: bytes | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        table = tables.find(self.table)
        is_there = table is not None and (self.key is None or table.peek(self.key, now) is not None)
        return StashReply(is_true=is_there)


class Touch(Op, frozen=True, tag="touch"):
    """Let an entry live its span anew, or another one from now on; ``is_true``: it was there."""

    table: str
    key: bytes
    expires_in_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_spans(self.expires_in_s)
        if tables.find(self.table) is None:
            return MISSING
        table = tables.made(self.table)  # one of ours is not to be touched
        entry = table.find(self.key, now)
        if entry is None:
            return MISSING
        table.set_span(self.key, entry, entry.ttl_s if self.expires_in_s is None else self.expires_in_s, now)
        return StashReply(version=entry.version)


class Ttl(Op, frozen=True, tag="ttl"):
    """How long an entry still has, if nobody uses it; None: for ever. It is no use of it."""

    writes = False

    table: str
    key: bytes

    def apply(self, tables: StashTables, now: float) -> StashReply:
        table = tables.find(self.table)
        entry = None if table is None else table.peek(self.key, now)
        if entry is None:
            return MISSING
        return StashReply(span_s=None if entry.due_at == FOREVER else entry.due_at - now, version=entry.version)


class Incr(Op, frozen=True, tag="incr"):
    """Add to a number and return the sum. A missing one is 0 and gets the spans; one that is there keeps its own."""

    table: str
    key: bytes
    by: int | float
    expires_in_s: float | None = None
    idle_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_spans(self.expires_in_s, self.idle_s)
        return on_made(tables, self.table, self._add, now)

    def _add(self, table: Table, now: float) -> StashReply:
        old = table.find(self.key, now)
        number = 0 if old is None else _number(old.value, self)
        try:
            value = encode_whole(number + self.by)
        except OverflowError as exc:
            raise StashError(f"{place_of(self.table, self.key)} grows too large for a float: {exc}") from None
        if old is None:
            entry = new_entry(table, value, now, self.expires_in_s, self.idle_s)
        else:
            entry = renewed(table, old, value)
        table.put(self.key, entry, now)
        return StashReply(value=value, version=entry.version)


class Cas(Op, frozen=True, tag="cas"):
    """Compare and swap: if the value is as expected (None: not there), put the new one (None: remove it).

    What is there keeps its spans. ``is_true``: it was as expected, and is as wanted now.
    """

    table: str
    key: bytes
    expected: bytes | None
    new: bytes | None
    expires_in_s: float | None = None
    idle_s: float | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_spans(self.expires_in_s, self.idle_s)
        if tables.find(self.table) is None and (self.expected is not None or self.new is None):
            return StashReply(is_true=self.expected is None)  # what puts nothing makes no table
        return on_made(tables, self.table, self._swap, now)

    def _swap(self, table: Table, now: float) -> StashReply:
        old = table.find(self.key, now)
        if not _is_as(None if old is None else old.value, self.expected):
            return MISSING
        if self.new is None:
            if old is not None:
                table.delete(self.key, now)
            return _DONE
        if old is None:
            entry = new_entry(table, self.new, now, self.expires_in_s, self.idle_s)
        else:
            entry = renewed(table, old, self.new)
        table.put(self.key, entry, now)
        return StashReply(version=entry.version)


def _deleted(tables: StashTables, name: str, key: bytes, now: float) -> Entry | None:
    if tables.find(name) is None:
        return None
    return tables.made(name).delete(key, now)


def _number(value: Stored, op: Incr) -> int | float:
    try:
        number = decode_body(value) if isinstance(value, bytes) else value
    except DirtyError:  # of a class that is not loaded here
        number = None
    if type(number) is not int and type(number) is not float:
        kind = getattr(number, "kind", type(number).__name__) if number is not None else "no number"
        raise StashError(f"{place_of(op.table, op.key)} cannot be added to: it is {kind}; store an int or a float")
    return number


def _is_as(value: Stored | None, expected: bytes | None) -> bool:
    if value is None or expected is None:
        return value is expected
    if isinstance(value, SetValue) or (type(value) is bytes and value != expected and _is_set(value)):
        return _is_set(expected) and _members(value) == _members(expected)
    return body_of(value) == expected


def _is_set(body: bytes) -> bool:
    try:
        as_set(body, "")
    except StashError:
        return False
    return True


def _members(value: Stored) -> set[bytes]:
    return {*(value if isinstance(value, SetValue) else as_set(body_of(value), "")).members}
