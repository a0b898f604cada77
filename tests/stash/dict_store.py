"""A store in dicts: what `StashStore` promises, word for word, and a way to hold it, fail it, and look into it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import msgspec

from dirtybus.errors import StashNotStored
from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Row, Upsert

WITHIN_S = 20.0
Place = tuple[str, bytes]


class DictStore:
    """Remembers each batch; `gate` holds every write while it is clear, ``failures`` is how many writes fail next."""

    def __init__(self) -> None:
        self.version = 0
        self.rules: dict[str, bytes] = {}
        self.rows: dict[Place, Row] = {}
        self.parts: dict[Place, dict[bytes, bytes]] = {}
        self.batches: list[tuple[tuple[Change, ...], int, bool]] = []
        self.failures = 0
        self.error: Exception = StashNotStored("the disk is full")
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.closed = 0

    def open(self) -> None:
        self.closed = 0

    def load(self) -> Iterator[Sequence[Define | Upsert]]:
        yield [Define(name, rules) for name, rules in self.rules.items()]
        for place, row in self.rows.items():
            yield [Upsert(row, tuple(sorted(self.parts.get(place, {}).items())), is_new=True)]

    def write(self, batch: Sequence[Change], version: int, *, is_durable: bool) -> None:
        self.entered.release()
        assert self.gate.wait(WITHIN_S), "nobody let the store go on"
        if self.failures:
            self.failures -= 1
            raise self.error
        assert version >= self.version
        self.version = version
        self.batches.append((tuple(batch), version, is_durable))
        for change in batch:
            self.apply(change)

    def close(self) -> None:
        self.closed += 1

    def apply(self, change: Change) -> None:
        match change:
            case Upsert(row=row):
                self._upsert((row.table, row.key), change)
            case Erase(table=table, key=key):
                self._forget((table, key))
            case Clear(table=table):
                self._clear(table)
            case Drop(table=table):
                self._clear(table)
                self.rules.pop(table, None)
            case Define(table=table, rules=rules):
                self.rules[table] = rules

    def _upsert(self, place: Place, change: Upsert) -> None:
        row = change.row
        if change.is_new:
            self.parts.pop(place, None)
        if row.kind == "value" and row.value is None:
            if place not in self.rows:
                return
            row = msgspec.structs.replace(row, value=self.rows[place].value)
        self.rows[place] = row
        parts = {part: item for part, item in self.parts.get(place, {}).items() if part not in change.parts_gone}
        parts.update(change.parts_put)
        self.parts[place] = parts

    def _clear(self, table: str) -> None:
        for place in [place for place in self.rows if place[0] == table]:
            self._forget(place)

    def _forget(self, place: Place) -> None:
        self.rows.pop(place, None)
        self.parts.pop(place, None)

    def content(self) -> object:
        """Return all that it holds."""
        return self.rules, self.rows, {place: parts for place, parts in self.parts.items() if parts}


def value_row(table: str = "t", key: bytes = b"k", value: bytes | None = b"v", version: int = 1) -> Row:
    return Row(table, key, value, "value", version, float("inf"), float("inf"), float("inf"))
