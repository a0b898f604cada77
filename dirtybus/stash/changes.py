"""What changed lately in tables that somebody watches: bounded, and it says how much was forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.entry import FOREVER
from dirtybus.stash.glob import compile_glob
from dirtybus.stash.key import key_text
from dirtybus.stash.note import Note, PlainChange

__all__ = ["ChangeLogs"]

#: A log remembers so many changes, and so many bytes of their keys.
_MOST_CHANGES: Final = 10_000
_MOST_BYTES: Final = 4 * 1024 * 1024
#: A log that nobody has asked for so long is given up: its watcher is gone.
_KEPT_FOR_S: Final = 120.0


class _Log:
    """The latest changes of one table. ``first`` is the number of the oldest that is remembered."""

    __slots__ = ("asked_at", "changes", "first", "size_bytes")

    def __init__(self, now: float) -> None:
        self.changes: deque[PlainChange] = deque()
        self.first = 0
        self.size_bytes = 0
        self.asked_at = now

    @property
    def end(self) -> int:
        return self.first + len(self.changes)

    def add(self, change: PlainChange) -> None:
        self.changes.append(change)
        self.size_bytes += len(change.key or b"")
        while len(self.changes) > _MOST_CHANGES or self.size_bytes > _MOST_BYTES:
            self.size_bytes -= len(self.changes.popleft().key or b"")
            self.first += 1


class ChangeLogs:
    """The logs of all tables that are watched. One begins when it is first asked for."""

    def __init__(self, tables: StashTables) -> None:
        self._tables = tables
        self._logs: dict[str, _Log] = {}
        #: no log begins anew what another of the same table had numbered
        self._begun = 0

    def begin(self, table: str, now: float) -> tuple[int, int]:
        """Watch from now on: return the cursor of the next change."""
        log = self._logs.get(table)
        if log is None:
            log = self._logs[table] = _Log(now)
            self._begun += 1
            log.first = self._begun << 40
            self._tables.follow(table)
        log.asked_at = now
        return self._tables.first_version, log.end

    def read(
        self, table: str, since: tuple[int, int], pattern: str | None, most: int, now: float
    ) -> tuple[list[PlainChange], tuple[int, int], int | None]:
        """Return changes since the cursor, the next cursor, and whether some were forgotten: how many, 0 if unknown."""
        epoch, number = since
        log = self._logs.get(table)
        if log is None or epoch != self._tables.first_version or not number <= log.end or number >> 40 != log.end >> 40:
            return [], self.begin(table, now), 0
        log.asked_at = now
        if number < log.first:
            return [], (epoch, log.first), log.first - number
        glob = None if pattern is None else compile_glob(pattern)
        changes: list[PlainChange] = []
        while number < log.end and len(changes) < most:
            change = log.changes[number - log.first]
            number += 1
            text = None if change.key is None or glob is None else key_text(change.key)
            if glob is None or change.key is None or (text is not None and glob.fullmatch(text)):
                changes.append(change)
        return changes, (epoch, number), None

    def record(self, notes: Sequence[Note]) -> set[str]:
        """Write down what changed; return the tables that are watched and were changed."""
        changed = set()
        for note in notes:
            log = self._logs.get(note.table)
            if log is not None and note.kind != "ruled":
                log.add(PlainChange(note.kind, note.key, note.version))
                changed.add(note.table)
        return changed

    @property
    def has_any(self) -> bool:
        """Whether any table is watched."""
        return bool(self._logs)

    @property
    def due_at(self) -> float:
        """When `sweep` has something to do next."""
        return min((log.asked_at + _KEPT_FOR_S for log in self._logs.values()), default=FOREVER)

    def sweep(self, now: float) -> None:
        """Give up the logs that nobody asks for any more."""
        for table, log in list(self._logs.items()):
            if log.asked_at + _KEPT_FOR_S <= now:
                del self._logs[table]
                self._tables.unfollow(table)
