"""Brings changes of the tables to a store: notes become rows, and answers wait for the disk where they have to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

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
        tables: say how safe each table has to be.
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

    def record(self, notes: Sequence[Note], version: int, settle: Callable[[DirtyError | None], object]) -> bool:
        """Take the changes of one operation; return whether its answer waits for ``settle``: for a commit, or room."""
        shift_s = time.time() - self._clock()
        changes: list[Change] = []
        is_durable = False
        for note in notes:
            durability = self._tables.durability(note.table)
            if durability != "none":
                changes.append(self._change(note, shift_s))
                is_durable = is_durable or durability == "sync"
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

    def _change(self, note: Note, shift_s: float) -> Change:
        key = note.key
        if key is None:
            return self._change_of_table(note)
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

    def _change_of_table(self, note: Note) -> Change:
        match note.kind:
            case "cleared":
                return Clear(note.table)
            case "dropped":
                return Drop(note.table)
        return Define(note.table, Rules.of(self._tables.get(note.table).rules).to_bytes())


def to_wall(moment: float, shift_s: float) -> float:
    """Return a moment of the keeper's clock by the wall's."""
    return moment + shift_s if math.isfinite(moment) else moment


def _row(table: str, key: bytes, entry: Entry, value: bytes | LargeBody | None, kind: Kind, shift_s: float) -> Row:
    return Row(table, key, value, kind, entry.version, to_wall(entry.expires_at, shift_s), entry.ttl_s, entry.idle_s)
