"""The tables of the store's database, and the steps from one version of them to the next. Knows no rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

from dirtybus.stash.store_file import APPLICATION_ID

__all__ = ["LATEST", "is_as_made", "migrate"]

#: Each step brings a file to the next version of the schema; a new file takes them all. Every row has a checksum:
#: SQLite has none for what stands in its main file.
_MIGRATIONS: Final = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE tables (name TEXT PRIMARY KEY, rules BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE entries (
        tbl TEXT NOT NULL, key BLOB NOT NULL, value BLOB, kind TEXT NOT NULL, version INTEGER NOT NULL,
        expires_at REAL, ttl_s REAL, idle_s REAL, value_crc INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (tbl, key)
    ) WITHOUT ROWID;
    CREATE TABLE parts (
        tbl TEXT NOT NULL, key BLOB NOT NULL, part BLOB NOT NULL, item BLOB NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (tbl, key, part)
    ) WITHOUT ROWID;
    """,
)
LATEST: Final = len(_MIGRATIONS)


def migrate(connection: sqlite3.Connection, schema: int) -> None:
    """Bring a database of version ``schema`` to the latest one, inside of the caller's transaction."""
    for number in range(schema, LATEST):
        for statement in _MIGRATIONS[number].split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def is_as_made(connection: sqlite3.Connection) -> bool:
    """Whether the tables are those that `migrate` makes: nothing else sees a damaged name."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, 0)
        return _tables_of(fresh) == _tables_of(connection)


def _tables_of(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return sorted(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
