"""What holds of tables whenever nobody is in them, and the same tables made anew from what they say has changed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.buckets import alarm_of
from dirtybus.stash.entry import ENTRY_BYTES, Entry, size_of
from dirtybus.stash.note import Note
from dirtybus.stash.one_table import Table
from dirtybus.stash.op import body_of
from dirtybus.stash.parts import PART_BYTES, ListValue, SetValue

Plain = tuple[bytes | dict[bytes, bytes], int, float, float, float]
World = dict[str, dict[bytes, Plain]]


def plain(entry: Entry) -> Plain:
    """Return all of an entry that outlives a restart, as values of its own."""
    value = dict(entry.value.parts()) if isinstance(entry.value, ListValue | SetValue) else body_of(entry.value)
    return value, entry.version, entry.expires_at, entry.ttl_s, entry.idle_s


def world_of(tables: StashTables) -> World:
    """Return everything that the tables hold; a table without an entry is none."""
    found = {}
    for name in tables.names():
        entries = tables.get(name).entries
        if len(entries):
            found[name] = {key: plain(entry) for _, key, entry in entries.after(None)}
    return found


def everything(tables: StashTables) -> object:
    """Return all that a refused operation leaves as it was, their uses among it."""
    return [
        (
            name,
            table.rules,
            table.size_bytes,
            table.evicted,
            table.expired,
            [(key, plain(entry), entry.used_at) for _, key, entry in table.entries.after(None)],
        )
        for name, table in ((name, tables.get(name)) for name in tables.names())
    ], tables.book.memory_bytes


def replay(world: World, notes: Iterable[Note]) -> None:
    """Do to ``world`` what the notes say, as whoever persists them does."""
    for note in notes:
        if note.key is None:
            if note.kind != "ruled":
                world.pop(note.table, None)
            continue
        table = world.setdefault(note.table, {})
        if note.entry is None:
            del table[note.key]
        elif note.is_whole:
            table[note.key] = plain(note.entry)
        else:
            value = table[note.key][0]
            if isinstance(value, dict):
                value = {part: what for part, what in value.items() if part not in note.parts_gone}
                value.update(note.parts_put)
            table[note.key] = (value, *plain(note.entry)[1:])
        if not table:
            del world[note.table]


def check(tables: StashTables) -> None:
    """Raise AssertionError if a counter, a bound or an alarm is wrong."""
    total = 0
    for name in tables.names():
        table = tables.get(name)
        _check_counts(table)
        _check_alarms(table)
        assert tables.due_at <= table.due_at
        total += table.memory_bytes
    assert tables.book.memory_bytes == total
    assert tables.book.undo is None
    assert tables.config.max_bytes is None or total <= tables.config.max_bytes


def _check_counts(table: Table) -> None:
    entries = {key: entry for bucket in table.entries.all for key, entry in bucket.entries.items()}
    assert len(table) == len(entries) == sum(len(bucket.entries) for bucket in table.entries.all)
    assert all(table.entries.get(key) is entry for key, entry in entries.items())
    for entry in entries.values():
        value = entry.value
        if isinstance(value, ListValue | SetValue):
            parts = list(value.items) if isinstance(value, ListValue) else list(value.members)
            assert value.size_bytes == sum(map(len, parts)) + PART_BYTES * len(parts)
    assert table.size_bytes == sum(len(key) + size_of(entry.value) for key, entry in entries.items())
    assert table.memory_bytes == table.size_bytes + ENTRY_BYTES * len(entries)


def _check_alarms(table: Table) -> None:
    for bucket in table.entries.all:
        alarms = bucket.alarms
        assert all(alarms[(index - 1) // 2] <= alarms[index] for index in range(1, len(alarms)))
        for key, entry in bucket.entries.items():
            assert entry.alarm_at <= entry.due_at
            if entry.alarm_at != math.inf:
                assert alarm_of(entry.alarm_at, key) in alarms
                assert table.due_at <= entry.alarm_at
