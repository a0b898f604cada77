"""The tables: named dictionaries of bytes, kept in memory and counted. Opens no value; knows no clock and no caller."""

from __future__ import annotations

from dirtybus.errors import StashTableNotFoundError
from dirtybus.stash.glob import compile_glob
from dirtybus.stash.key import key_text

__all__ = ["StashTables"]


class _Table:
    """One table. ``size_bytes`` is the length of all its keys and values."""

    __slots__ = ("entries", "size_bytes")

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.size_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        old = self.entries.get(key)
        self.size_bytes += len(value) - len(old) if old is not None else len(key) + len(value)
        self.entries[key] = value

    def pop(self, key: bytes) -> bytes | None:
        value = self.entries.pop(key, None)
        if value is not None:
            self.size_bytes -= len(key) + len(value)
        return value

    def clear(self) -> int:
        count = len(self.entries)
        self.entries.clear()
        self.size_bytes = 0
        return count


class StashTables:
    """All tables of one owner. Keys are the bytes of `key_bytes`; values are handed out as they were put in.

    Putting makes a missing table; everything else treats it as an empty one, except `info`, which raises. A table
    stays when its last entry goes. Entries keep the order in which their keys came. Not for use by several threads at
    once: see `LocalPort`.
    """

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._made(table).put(key, value)

    def setdefault(self, table: str, key: bytes, value: bytes) -> bytes:
        """Return what stands under ``key``, putting ``value`` there first if nothing does."""
        found = self.get(table, key)
        if found is not None:
            return found
        self.put(table, key, value)
        return value

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value, or None if there is no such key (a stored ``None`` is bytes like any value)."""
        found = self._tables.get(table)
        return None if found is None else found.entries.get(key)

    def pop(self, table: str, key: bytes) -> bytes | None:
        """Remove the key; return its value, or None if there is no such key."""
        found = self._tables.get(table)
        return None if found is None else found.pop(key)

    def delete(self, table: str, key: bytes) -> bool:
        return self.pop(table, key) is not None

    def exists(self, table: str, key: bytes | None = None) -> bool:
        """Whether the table has the key; without a key, whether there is such a table."""
        if key is None:
            return table in self._tables
        return self.get(table, key) is not None

    def length(self, table: str) -> int:
        found = self._tables.get(table)
        return 0 if found is None else len(found.entries)

    def keys(self, table: str, pattern: str | None = None) -> list[bytes]:
        """Return the keys; with a glob ``pattern``, only the str keys that match it.

        Raises:
            StashError: the pattern is too long.
        """
        found = self._tables.get(table)
        # compiled first: a wrong pattern is wrong whatever the table holds
        glob = None if pattern is None else compile_glob(pattern)
        if found is None:
            return []
        if glob is None:
            return list(found.entries)
        return [key for key in found.entries if (text := key_text(key)) is not None and glob.fullmatch(text)]

    def items(self, table: str) -> list[tuple[bytes, bytes]]:
        found = self._tables.get(table)
        return [] if found is None else list(found.entries.items())

    def clear(self, table: str) -> int:
        """Remove every entry but not the table; return how many there were."""
        found = self._tables.get(table)
        return 0 if found is None else found.clear()

    def info(self, table: str) -> dict[str, str | int]:
        """Return ``name``, ``size`` (entries), ``bytes`` (of keys and values), and the name as ``table`` once more.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        found = self._tables.get(table)
        if found is None:
            raise StashTableNotFoundError(table)
        # gunicorn calls the name `table`
        return {"name": table, "size": len(found.entries), "bytes": found.size_bytes, "table": table}

    def ensure(self, table: str) -> bool:
        """Make the table unless it is there; return whether it was made."""
        is_new = table not in self._tables
        self._made(table)
        return is_new

    def delete_table(self, table: str) -> bool:
        """Remove the table with all its entries; return whether there was one."""
        return self._tables.pop(table, None) is not None

    def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return sorted(self._tables)

    @property
    def size_bytes(self) -> int:
        """The length of all keys and values of all tables."""
        return sum(table.size_bytes for table in self._tables.values())

    def __repr__(self) -> str:
        entries = sum(len(table.entries) for table in self._tables.values())
        return f"<StashTables {len(self._tables)} tables, {entries} entries, {self.size_bytes} bytes>"

    def _made(self, table: str) -> _Table:
        found = self._tables.get(table)
        if found is None:
            found = self._tables[table] = _Table()
        return found
