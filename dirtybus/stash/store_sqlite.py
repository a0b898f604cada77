"""The store in one SQLite file. Every commit is whole; a durable one is on disk when it returns."""

from __future__ import annotations

import math
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from dirtybus.errors import StashError, StashNotStored
from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Row, Upsert

__all__ = ["SqliteStore"]

#: what says in the file's header that it is ours: "dbst"
_APPLICATION_ID: Final = 0x64627374
#: Each step brings a file to the next version of the schema; a new file takes them all.
_MIGRATIONS: Final = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE tables (name TEXT PRIMARY KEY, rules BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE entries (
        tbl TEXT NOT NULL, key BLOB NOT NULL, value BLOB, kind TEXT NOT NULL, version INTEGER NOT NULL,
        expires_at REAL, ttl_s REAL, idle_s REAL, PRIMARY KEY (tbl, key)
    ) WITHOUT ROWID;
    CREATE TABLE parts (
        tbl TEXT NOT NULL, key BLOB NOT NULL, part BLOB NOT NULL, item BLOB NOT NULL, PRIMARY KEY (tbl, key, part)
    ) WITHOUT ROWID;
    """,
)
_ROWS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_UPSERT: Final = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteStore:
    """A `StashStore` in a file, which is made when it is not there, for this user only.

    Write-ahead logging, in exclusive mode: what was committed is whole after a crash at any moment, and no second
    owner gets in. The file is checked when it is opened.

    Args:
        path: the file. Its directory must be there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = 0
        self._connection: sqlite3.Connection | None = None
        self._is_durable: bool | None = None

    def open(self) -> None:
        """Get hold of the file. Raises as `StashStore`; a file that is not ours, or is damaged, is left as it is."""
        file = Path(self.path)
        try:
            # made here, with its mode, as SQLite's own would follow the umask; its log takes the mode of the file
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # opened from another process's thread than the one that closes it, never by two at the same time
            connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        except OSError as exc:
            raise StashError(f"the stash cannot be kept in {self.path!r}: {exc.strerror}; name another file") from exc
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc
        try:
            self._prepare(connection)
        except BaseException as exc:
            connection.close()
            if isinstance(exc, sqlite3.Error):
                raise self._unusable(exc) from exc
            raise
        self._connection = connection

    def load(self) -> Iterator[Sequence[Define | Upsert]]:
        try:
            yield [Define(name, rules) for name, rules in self._execute("SELECT name, rules FROM tables")]
            yield from self._load_entries()
        except sqlite3.Error as exc:
            raise self._unusable(exc) from exc

    def write(self, batch: Sequence[Change], version: int, *, is_durable: bool) -> None:
        connection = self._connection
        assert connection is not None, "the store is open"
        try:
            if is_durable is not self._is_durable:  # may not be changed inside of a transaction
                self._is_durable = None
                connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
                self._is_durable = is_durable
            connection.execute("BEGIN IMMEDIATE")
            try:
                for kind, changes in groupby(batch, type):
                    _WRITERS[kind](connection, list(changes))
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (version,))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as exc:
            raise StashNotStored(
                f"changes of the stash are kept in memory but could not be written to {self.path!r}: {exc}; they are "
                f"tried again: make room on the disk, or let the file be written to"
            ) from exc
        self.version = version

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- opening ---

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Look before anything is written: the file may be somebody else's."""
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        application_id, schema = (_one(connection, f"PRAGMA {name}") for name in ("application_id", "user_version"))
        is_empty = not _one(connection, "SELECT count(*) FROM sqlite_master")
        if not is_empty and application_id != _APPLICATION_ID:
            raise StashError(
                f"{self.path!r} is a database of another program, and was left as it is; name another file"
            )
        if schema > len(_MIGRATIONS):
            raise StashError(
                f"{self.path!r} was written by a later version of dirtybus (its schema is {schema}, this one knows "
                f"{len(_MIGRATIONS)}), and was left as it is; use that version, or name another file"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA busy_timeout = 0")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")  # there, fsync alone does not reach the disk
        connection.execute("BEGIN EXCLUSIVE")  # from here on nobody else gets in
        for number in range(schema, len(_MIGRATIONS)):
            for statement in _MIGRATIONS[number].split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
        self._check(connection)
        self.version = _one(connection, "SELECT max(value) FROM meta WHERE name = 'version'") or 0

    def _check(self, connection: sqlite3.Connection) -> None:
        found = _one(connection, "PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged(str(found))

    def _unusable(self, exc: sqlite3.Error) -> StashError:
        name = getattr(exc, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StashError(
                f"{self.path!r} is in use by another owner; end that one, or name another file in stash.persist"
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return self._damaged(str(exc))
        return StashError(f"the stash cannot be kept in {self.path!r}: {exc}; see to the file, or name another one")

    def _damaged(self, what: str) -> StashError:
        return StashError(
            f"{self.path!r} is no database or is damaged, and was left as it is: {what.splitlines()[0][:200]}; move it "
            f"away (with {Path(self.path).name}-wal) to begin with an empty one, and restore what was exported with "
            f"`dirtybus stash import`"
        )

    # --- reading ---

    def _load_entries(self) -> Iterator[Sequence[Upsert]]:
        batch: list[Upsert] = []
        size_bytes = 0
        for table, key, value, kind, version, expires_at, ttl_s, idle_s in self._execute("SELECT * FROM entries"):
            spans = (_read_span(expires_at), _read_span(ttl_s), _read_span(idle_s))
            row = Row(table, key, value, kind, version, *spans)
            if kind == "value":
                batch.append(Upsert(row, is_new=True))
                size_bytes += len(key) + len(value)
            else:
                yield batch
                batch, size_bytes = [], 0
                yield from self._load_parts(row)
            if len(batch) >= _ROWS_AT_ONCE or size_bytes >= _BYTES_AT_ONCE:
                yield batch
                batch, size_bytes = [], 0
        yield batch

    def _load_parts(self, row: Row) -> Iterator[Sequence[Upsert]]:
        parts = self._execute("SELECT part, item FROM parts WHERE tbl = ? AND key = ?", row.table, row.key)
        is_new = True
        while True:
            some = parts.fetchmany(_ROWS_AT_ONCE)
            if some or is_new:
                yield [Upsert(row, tuple(some), is_new=is_new)]
            if not some:
                return
            is_new = False

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        assert self._connection is not None, "the store is open"
        return self._connection.execute(statement, values)


# --- writing: the changes of one kind that come in a row ---


def _upsert(connection: sqlite3.Connection, changes: Sequence[Upsert]) -> None:
    connection.executemany(_UPSERT, [_plain(change.row) for change in changes])
    for change in changes:
        if change.is_new or change.parts_put or change.parts_gone:
            _write_parts(connection, change)


def _write_parts(connection: sqlite3.Connection, change: Upsert) -> None:
    place = (change.row.table, change.row.key)
    if change.is_new:
        connection.execute("DELETE FROM parts WHERE tbl = ? AND key = ?", place)
    gone = [(*place, part) for part in change.parts_gone]
    connection.executemany("DELETE FROM parts WHERE tbl = ? AND key = ? AND part = ?", gone)
    put = [(*place, part, item) for part, item in change.parts_put]
    connection.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)", put)


def _erase(connection: sqlite3.Connection, changes: Sequence[Erase]) -> None:
    places = [(change.table, change.key) for change in changes]
    connection.executemany("DELETE FROM entries WHERE tbl = ? AND key = ?", places)
    connection.executemany("DELETE FROM parts WHERE tbl = ? AND key = ?", places)


def _clear(connection: sqlite3.Connection, changes: Sequence[Clear | Drop]) -> None:
    for change in changes:
        connection.execute("DELETE FROM entries WHERE tbl = ?", (change.table,))
        connection.execute("DELETE FROM parts WHERE tbl = ?", (change.table,))


def _drop(connection: sqlite3.Connection, changes: Sequence[Drop]) -> None:
    _clear(connection, changes)
    connection.executemany("DELETE FROM tables WHERE name = ?", [(change.table,) for change in changes])


def _define(connection: sqlite3.Connection, changes: Sequence[Define]) -> None:
    rows = [(change.table, change.rules) for change in changes]
    connection.executemany("INSERT OR REPLACE INTO tables VALUES (?, ?)", rows)


_WRITERS: Final[dict[type, Any]] = {Upsert: _upsert, Erase: _erase, Clear: _clear, Drop: _drop, Define: _define}


def _plain(row: Row) -> tuple[object, ...]:
    spans = (_span(row.expires_at), _span(row.ttl_s), _span(row.idle_s))
    return (row.table, row.key, row.value, row.kind, row.version, *spans)


def _span(span: float) -> float | None:
    return span if math.isfinite(span) else None


def _read_span(span: float | None) -> float:
    return math.inf if span is None else span


def _one(connection: sqlite3.Connection, statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]
