"""What stands in the store's database: changes as rows, rows as records, each with its checksum. Knows no file."""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, get_args
from zlib import crc32

import msgspec

from dirtybus.stash.entry import size_of
from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Kind, Row, Upsert

__all__ = ["DamagedRow", "read_entries", "read_tables", "read_version", "write_changes", "write_version"]

_KINDS: Final = frozenset(get_args(Kind))
#: A longer value stands among the parts, so that a change of its spans does not write it again.
_LARGE_BYTES: Final = 16 * 1024
_PARTS_AT_ONCE: Final = 1000
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_packed: Final = msgspec.msgpack.Encoder().encode
#: It stands there in pieces: SQLite takes no more than a billion bytes at a time.
_PIECE_BYTES: Final = 64 * 1024 * 1024
_NUMBER: Final = struct.Struct(">Q")


class DamagedRow(Exception):
    """A row is not what was written; the message says which."""


# --- writing: the changes of one kind that come in a row go together ---


def write_changes(connection: sqlite3.Connection, batch: Sequence[Change]) -> None:
    """Write changes in their order, inside of the caller's transaction."""
    for kind, changes in groupby(batch, type):
        _WRITERS[kind](connection, list(changes))


def write_version(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?, ?)", (version, _crc("version", version)))


def _upsert(connection: sqlite3.Connection, changes: Sequence[Upsert]) -> None:
    if len({(change.row.table, change.row.key) for change in changes}) < len(changes):
        for change in changes:  # of one key: one after the other
            _upsert(connection, [change])
        return
    whole = [change for change in changes if not change.keeps_value]
    kept = [change.row for change in changes if change.keeps_value]
    places = [(change.row.table, change.row.key) for change in changes if change.is_new]
    connection.executemany("DELETE FROM parts WHERE tbl = ? AND key = ?", places)
    connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_plain, whole))
    connection.executemany(
        "UPDATE entries SET version = ?, expires_at = ?, ttl_s = ?, idle_s = ?, crc = ? WHERE tbl = ? AND key = ?",
        [(row.version, *_spans(row), _head_crc(row), row.table, row.key) for row in kept],
    )
    for change in changes:
        if change.parts_put or change.parts_gone or _is_large(change.row):
            _write_parts(connection, change)


def _write_parts(connection: sqlite3.Connection, change: Upsert) -> None:
    row = change.row
    gone = [(row.table, row.key, part) for part in change.parts_gone]
    connection.executemany("DELETE FROM parts WHERE tbl = ? AND key = ? AND part = ?", gone)
    parts = _pieces_of(_bytes_of(row)) if _is_large(row) else change.parts_put
    put = ((row.table, row.key, part, item, _part_crc(row.table, row.key, part, item)) for part, item in parts)
    connection.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?)", put)


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
    rows = [(change.table, change.rules, _crc(change.table, change.rules)) for change in changes]
    connection.executemany("INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", rows)


_WRITERS: Final[dict[type, Any]] = {Upsert: _upsert, Erase: _erase, Clear: _clear, Drop: _drop, Define: _define}


def _plain(change: Upsert) -> tuple[object, ...]:
    row = change.row
    if row.value is None:
        value, value_crc = None, 0
    elif _is_large(row):
        value, value_crc = None, -(-size_of(row.value) // _PIECE_BYTES)  # of how many pieces
    else:
        value = _bytes_of(row)
        value_crc = crc32(value)
    return (row.table, row.key, value, row.kind, row.version, *_spans(row), value_crc, _head_crc(row))


def _is_large(row: Row) -> bool:
    return row.value is not None and size_of(row.value) > _LARGE_BYTES


def _pieces_of(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    view = memoryview(value)
    for number, start in enumerate(range(0, len(value), _PIECE_BYTES)):
        yield _NUMBER.pack(number), bytes(view[start : start + _PIECE_BYTES])


def _bytes_of(row: Row) -> bytes:
    assert row.value is not None
    return row.value if isinstance(row.value, bytes) else row.value.read_bytes()


# --- reading ---


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version that was written; 0 if there is none."""
    for name, value, crc in connection.execute("SELECT name, value, crc FROM meta WHERE name = 'version'"):
        if crc != _crc(name, value):
            raise DamagedRow("the checksum of the version is wrong")
        return int(value)
    return 0


def read_tables(connection: sqlite3.Connection) -> Iterator[Define]:
    """Give each table."""
    for name, rules, crc in connection.execute("SELECT name, rules, crc FROM tables"):
        if crc != _crc(name, rules):
            raise DamagedRow(f"the checksum of the rules of table {name!r} is wrong")
        yield Define(name, rules)


def read_entries(connection: sqlite3.Connection) -> Iterator[Upsert]:
    """Give each entry; a collection in pieces of bounded size."""
    for table, key, value, kind, version, *spans, value_crc, crc in connection.execute("SELECT * FROM entries"):
        row = Row(table, key, value, kind, version, *map(_read_span, spans))
        if crc != _head_crc(row) or (value is not None and value_crc != crc32(value)):
            raise DamagedRow(f"the checksum of a row of table {table!r} is wrong")
        if kind not in _KINDS:
            raise DamagedRow(f"an entry of table {table!r} is of the unknown kind {kind!r}")
        if kind != "value":
            yield from _pieces(connection, row)
        elif value is None:
            yield _large(connection, row, value_crc)
        else:
            yield Upsert(row, is_new=True)


def _large(connection: sqlite3.Connection, row: Row, count: int) -> Upsert:
    pieces = [item for _, item in _parts_of(connection, row)]
    if len(pieces) != count or not count:
        raise DamagedRow(f"a large value of table {row.table!r} has {len(pieces)} of {count} pieces")
    return Upsert(msgspec.structs.replace(row, value=b"".join(pieces)), is_new=True)


def _pieces(connection: sqlite3.Connection, row: Row) -> Iterator[Upsert]:
    some: list[tuple[bytes, bytes]] = []
    size_bytes, is_new = 0, True
    for part, item in _parts_of(connection, row):
        some.append((part, item))
        size_bytes += len(part) + len(item)
        if len(some) >= _PARTS_AT_ONCE or size_bytes >= _BYTES_AT_ONCE:
            yield Upsert(row, tuple(some), is_new=is_new)
            some, size_bytes, is_new = [], 0, False
    if some or is_new:
        yield Upsert(row, tuple(some), is_new=is_new)


def _parts_of(connection: sqlite3.Connection, row: Row) -> Iterator[tuple[bytes, bytes]]:
    asked = "SELECT part, item, crc FROM parts WHERE tbl = ? AND key = ?"
    for part, item, crc in connection.execute(asked, (row.table, row.key)):
        if crc != _part_crc(row.table, row.key, part, item):
            raise DamagedRow(f"the checksum of a part in table {row.table!r} is wrong")
        yield part, item


# --- both ---


def _head_crc(row: Row) -> int:
    return _crc(row.table, row.key, row.kind, row.version, row.expires_at, row.ttl_s, row.idle_s)


def _part_crc(table: str, key: bytes, part: bytes, item: bytes) -> int:
    return crc32(item, _crc(table, key, part))  # an item may be large


def _crc(*values: object) -> int:
    return crc32(_packed(values))


def _spans(row: Row) -> tuple[float | None, ...]:
    return tuple(span if math.isfinite(span) else None for span in (row.expires_at, row.ttl_s, row.idle_s))


def _read_span(span: float | None) -> float:
    return math.inf if span is None else float(span)
