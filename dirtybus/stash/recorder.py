"""Brings changes of the tables to a store: notes become rows, and answers wait for the disk where they have to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from dirtybus.config.stash import Durability
from dirtybus.errors import DirtyError
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.entry import Entry, LargeBody
from dirtybus.stash.note import Note
from dirtybus.stash.ops_many import Rules
from dirtybus.stash.parts import ListValue, SetValue
from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Kind, Row, Upsert
from dirtybus.stash.writer import StashWriter

__all__ = ["StoreRecorder", "to_wall"]


class StoreRecorder:
    """The `Recorder` of a keeper that has a store.

    Args:
        tables: say how safe each table has to be. What they hold now is in the store already, where it has to be.
        writer: writes behind.
        clock: the keeper's clock.
        hop: brings an answer from the writer's thread to where it may be given.
    """

    def __init__(
        self,
        tables: StashTables,
        writer: StashWriter,
        clock: Callable[[], float],
        hop: Callable[[Callable[[], object]], object],
    ) -> None:
        self._tables = tables
        self._writer = writer
        self._clock = clock
        self._hop = hop
        #: how safe each table is, as far as the store has been told
        self._kept = {name: tables.durability(name) for name in tables.names()}

    def record(self, notes: Sequence[Note], version: int, settle: Callable[[DirtyError | None], object]) -> bool:
        """Take the changes of one operation; return whether its answer waits for ``settle``: for a commit, or room."""
        shift_s = time.time() - self._clock()
        changes: list[Change] = []
        is_durable = False
        for note in notes:
            before = self._kept.get(note.table, "none")
            changes += self._changes(note, before, shift_s)
            is_durable = is_durable or "sync" in (before, self._kept.get(note.table))
        if not changes:
            return False
        has_to_wait = is_durable or self._writer.is_full

        def on_done(error: DirtyError | None) -> None:
            self._hop(lambda: settle(error))

        self._writer.submit(changes, version=version, is_durable=is_durable, on_done=on_done if has_to_wait else None)
        return has_to_wait

    def state(self) -> dict[str, object]:
        """Return how far the writing is, as plain values."""
        return self._writer.state()

    def _changes(self, note: Note, before: Durability, shift_s: float) -> Iterable[Change]:
        if note.kind == "ruled":
            return self._ruled(note.table, shift_s)
        if note.kind == "dropped":
            self._kept.pop(note.table, None)
        if before == "none":
            return ()
        if note.key is None:
            return [Clear(note.table) if note.kind == "cleared" else Drop(note.table)]
        return [self._change(note, note.key, shift_s)]

    def _ruled(self, name: str, shift_s: float) -> list[Change]:
        """The table was made, or its rules are others: it may be kept from now on, or no more."""
        table = self._tables.find(name)
        if table is None:
            return []  # it was dropped since, in the same transaction
        before = self._kept.get(name)
        now = self._kept[name] = self._tables.durability(name)
        if now == "none":
            return [] if before in (None, "none") else [Drop(name)]
        changes: list[Change] = [Define(name, Rules.of(table.rules).to_bytes())]
        if before == "none":  # what it holds already was never told
            for _, key, entry in table.entries.after(None):
                changes.append(self._change(Note("put", name, key, entry.version, entry), key, shift_s))
        return changes

    def _change(self, note: Note, key: bytes, shift_s: float) -> Change:
        entry = note.entry
        if entry is None:
            return Erase(note.table, key)
        value = entry.value
        if not isinstance(value, ListValue | SetValue):
            # a large body is opened by whoever writes it: that takes long, and this is the owner's loop
            body = value if note.is_whole else None
            return Upsert(_row(note.table, key, entry, body, "value", shift_s), is_new=note.is_whole)
        row = _row(note.table, key, entry, None, value.kind, shift_s)
        if note.is_whole:
            return Upsert(row, tuple(value.parts()), is_new=True)
        return Upsert(row, tuple(note.parts_put), tuple(note.parts_gone))


def to_wall(moment: float, shift_s: float) -> float:
    """Return a moment of the keeper's clock by the wall's."""
    return moment + shift_s if math.isfinite(moment) else moment


def _row(table: str, key: bytes, entry: Entry, value: bytes | LargeBody | None, kind: Kind, shift_s: float) -> Row:
    return Row(table, key, value, kind, entry.version, to_wall(entry.expires_at, shift_s), entry.ttl_s, entry.idle_s)
