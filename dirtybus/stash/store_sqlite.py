"""The store in one SQLite file. Every commit is whole; a durable one is on disk when it returns."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dirtybus.errors import StashError, StashNotStored
from dirtybus.stash.entry import size_of
from dirtybus.stash.store import Change, Define, Upsert
from dirtybus.stash.store_file import APPLICATION_ID, claim, damaged, foreign, in_use, later, release
from dirtybus.stash.store_rows import (
    DamagedRow,
    read_entries,
    read_tables,
    read_version,
    write_changes,
    write_version,
)
from dirtybus.stash.store_schema import LATEST, is_as_made, migrate

__all__ = ["SqliteStore"]

_ROWS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024


class SqliteStore:
    """A `StashStore` in a file, which is made when it is not there, for this user only.

    Write-ahead logging, in exclusive mode: what was committed is whole after a crash at any moment, and no second
    owner gets in. The file is checked when it is opened, and each row when it is read.

    Args:
        path: the file. Its directory must be there.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)  # wherever this process goes meanwhile
        self.version = 0
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self._is_durable: bool | None = None

    def open(self) -> None:
        """Get hold of the file. Raises as `StashStore`; a file that is not ours, or is damaged, is left as it is."""
        try:
            self._file_id = claim(self.path, LATEST)
            # opened by another thread than the one that closes it, never used by two at the same time
            self._connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            self._prepare(self._connection)
        except BaseException as exc:
            self._let_go(is_to_be_left=True)
            if isinstance(exc, OSError):
                raise self._out_of_reach(exc) from exc
            if isinstance(exc, sqlite3.Error | DamagedRow):
                raise self._unusable(exc) from exc
            raise

    def load(self) -> Iterator[Sequence[Define | Upsert]]:
        connection = self._opened()
        try:
            yield list(read_tables(connection))
            batch: list[Upsert] = []
            size_bytes = 0
            for record in read_entries(connection):
                batch.append(record)
                size_bytes += _size_of(record)
                if len(batch) >= _ROWS_AT_ONCE or size_bytes >= _BYTES_AT_ONCE:
                    yield batch
                    batch, size_bytes = [], 0
            yield batch
        except (sqlite3.Error, DamagedRow) as exc:
            raise self._unusable(exc) from exc

    def write(self, batch: Sequence[Change], version: int, *, is_durable: bool) -> None:
        connection = self._opened()
        try:
            if is_durable is not self._is_durable:  # may not be changed inside of a transaction
                self._is_durable = None
                connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
                self._is_durable = is_durable
            connection.execute("BEGIN IMMEDIATE")
            try:
                write_changes(connection, batch)
                write_version(connection, version)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OverflowError) as exc:  # the latter of a value beyond SQLite's 2 GiB
            raise StashNotStored(
                f"changes of the stash are kept in memory but could not be written to {self.path!r}: {exc}; they are "
                f"tried again: make room on the disk, or let the file be written to"
            ) from exc
        self.version = version

    def close(self) -> None:
        self._let_go(is_to_be_left=False)

    # --- opening ---

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Look before anything is written: the file may be somebody else's."""
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        application_id, schema = (_one(connection, f"PRAGMA {name}") for name in ("application_id", "user_version"))
        if _one(connection, "SELECT count(*) FROM sqlite_master"):
            if application_id != APPLICATION_ID:
                raise foreign(self.path)
            found = _one(connection, "PRAGMA quick_check(1)")
            if found != "ok":
                raise damaged(self.path, str(found))
        if schema > LATEST:
            raise later(self.path, schema, LATEST)
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")  # there, fsync alone does not reach the disk
        connection.execute("BEGIN EXCLUSIVE")  # from here on nobody else gets in
        migrate(connection, schema)
        connection.execute("COMMIT")
        if not is_as_made(connection):
            raise damaged(self.path, "its tables are not those of a stash")
        self.version = read_version(connection)
        # not before: so the main file of a new one says whose it is, before there is a log
        mode = _one(connection, "PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StashError(
                f"the stash cannot be kept in {self.path!r}: its file system allows no write-ahead log (SQLite says "
                f"{mode!r}); name a file on a local disk"
            )

    def _let_go(self, *, is_to_be_left: bool) -> None:
        connection, self._connection = self._connection, None
        file_id, self._file_id = self._file_id, None
        self._is_durable = None
        try:
            if connection is not None:
                if is_to_be_left and sys.version_info >= (3, 12):  # before, SQLite brings the log into the main file
                    connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
                connection.close()
        finally:
            if file_id is not None:
                release(file_id)

    def _opened(self) -> sqlite3.Connection:
        assert self._connection is not None, "the store is open"
        return self._connection

    # --- what may be wrong ---

    def _out_of_reach(self, exc: OSError) -> StashError:
        directory = Path(self.path).parent
        if not directory.is_dir():
            return StashError(
                f"the stash cannot be kept in {self.path!r}: there is no directory {str(directory)!r}; make it, or "
                f"name another file in stash.persist"
            )
        return StashError(
            f"the stash cannot be kept in {self.path!r}: {exc.strerror}; see to its permissions, or name another file "
            f"in stash.persist"
        )

    def _unusable(self, exc: sqlite3.Error | DamagedRow) -> StashError:
        name = getattr(exc, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return in_use(self.path)
        if isinstance(exc, DamagedRow) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")):
            return damaged(self.path, str(exc))
        return StashError(f"the stash cannot be kept in {self.path!r}: {exc}; see to the file, or name another one")


def _size_of(record: Upsert) -> int:
    value = record.row.value
    parts = sum(len(part) + len(item) for part, item in record.parts_put)
    return len(record.row.key) + (0 if value is None else size_of(value)) + parts


def _one(connection: sqlite3.Connection, statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]
