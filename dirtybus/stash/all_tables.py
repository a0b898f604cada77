"""The tables of one owner by their names. Opens no value; knows no clock and no caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dirtybus.config.stash import Durability, StashConfig, TableConfig
from dirtybus.errors import StashError, StashTableNotFoundError
from dirtybus.stash.book import Book
from dirtybus.stash.entry import FOREVER, is_large
from dirtybus.stash.names import LONGEST_NAME, RESERVED
from dirtybus.stash.note import Note
from dirtybus.stash.one_table import Table

__all__ = ["StashTables"]

#: How many entries of what was cleared are let go of at a time.
_FREED_AT_ONCE: Final = 1024
_NO_RULES: Final = TableConfig()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class StashTables:
    """All tables of one owner. Keys are the bytes of `key_bytes`; values are handed out as they were put in.

    Writing makes a missing table; everything else treats it as an empty one. A table stays when its last entry goes.
    Not for use by several threads at once: see `Keeper`.

    Args:
        config: bounds, and the rules of tables by name.
        first_version: the version before the first change. Versions only ever grow, also over restarts: start where
            no earlier owner has been.
        follows_all: note each change of each table, for whoever takes them from ``book``.
    """

    def __init__(self, config: StashConfig | None = None, *, first_version: int = 0, follows_all: bool = False) -> None:
        self.config = config or StashConfig()
        self.first_version = first_version
        self.book = Book(self.config.max_bytes, first_version)
        self._follows_all = follows_all
        self._followed: set[str] = set()
        self._tables: dict[str, Table] = {}

    def find(self, name: str) -> Table | None:
        """Return the table, or None if there is none."""
        return self._tables.get(name)

    def made(self, name: str, *, is_ours: bool = False) -> Table:
        """Return the table, making it if need be.

        Raises:
            StashError: it cannot be called so, it is one of ours, or there are too many tables.
        """
        table = self._tables.get(name)
        if table is not None and (is_ours or not name.startswith(RESERVED)):
            return table
        self._check_name(name, is_ours=is_ours)
        table = self._tables[name] = Table(name, self.config.tables.get(name, _NO_RULES), self.book)
        table.is_followed = self._is_followed(table)
        if self.book.undo is not None:
            self.book.undo.append(lambda: self._tables.pop(name, None))
        self._note_rules(table)
        return table

    def follow(self, name: str) -> None:
        """Note the changes of this table, also when it is yet to be made."""
        self._followed.add(name)
        table = self._tables.get(name)
        if table is not None:  # an empty one is false
            table.is_followed = True

    def is_told(self, name: str) -> bool:
        """Whether the bus is told of the changes of this table."""
        table = self._tables.get(name)
        rules = self.config.tables.get(name, _NO_RULES) if table is None else table.rules
        return rules.watch

    def unfollow(self, name: str) -> None:
        """Note them no more, unless all tables are followed, or the table is one of ours, which always is."""
        if name.startswith(RESERVED):
            return
        self._followed.discard(name)
        table = self._tables.get(name)
        if table is not None:  # an empty one is false
            table.is_followed = self._is_followed(table)

    def set_rules(self, name: str, rules: TableConfig) -> bool:
        """Make the table, or give it other rules, which hold for what comes from now on; whether it was made."""
        is_new = name not in self._tables
        table = self.made(name)
        if self.book.undo is not None:
            before = table.rules
            self.book.undo.append(lambda: setattr(table, "rules", before))
        table.rules = rules
        table.is_followed = self._is_followed(table)
        self._note_rules(table)
        return is_new

    def restore_table(self, name: str, rules: TableConfig) -> None:
        """Make a table of before a restart. What the settings say of it now counts more than what it had then."""
        table = Table(name, self.config.tables.get(name, rules), self.book)
        table.is_followed = self._is_followed(table)
        self._tables[name] = table

    def get(self, name: str) -> Table:
        """Return the table.

        Raises:
            StashTableNotFoundError: there is none.
        """
        table = self._tables.get(name)
        if table is None:
            raise StashTableNotFoundError(name)
        return table

    def delete_table(self, name: str) -> bool:
        """Remove the table with all its entries; return whether there was one."""
        table = self._tables.get(name)
        if table is None:
            return False
        self.made(name)  # one of ours is not to be removed
        is_followed, table.is_followed = table.is_followed, False
        table.clear()
        del self._tables[name]
        if self.book.undo is not None:
            self.book.undo.append(lambda: self._put_back(table, is_followed=is_followed))
        if is_followed:
            self.book.notes.append(Note("dropped", name, None, self.book.next_version(), was_told=table.rules.watch))
        return True

    def names(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return sorted(self._tables)

    tables = names

    @property
    def size_bytes(self) -> int:
        """The length of all keys and values of all tables."""
        return sum(table.size_bytes for table in self._tables.values())

    def info(self, name: str) -> Mapping[str, Any]:
        """Return what is known of a table, as plain values.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        table = self.get(name)
        rules = table.rules
        return {
            "name": name,
            "size": len(table),
            "bytes": table.size_bytes,
            "memory_bytes": table.memory_bytes,
            "expired": table.expired,
            "evicted": table.evicted,
            "max_entries": rules.max_entries,
            "max_bytes": rules.max_bytes,
            "on_full": rules.on_full,
            "expires_in_s": rules.expires_in_s,
            "idle_s": rules.idle_s,
            "durability": self.durability(name),
            "table": name,  # gunicorn calls the name so
        }

    def durability(self, name: str) -> Durability:
        """Return when changes of the table are on disk: ``none``, ``async`` or ``sync``."""
        if self.config.persist is None:
            return "none"
        if name.startswith(RESERVED):
            return "sync"  # who holds what must not be forgotten
        table = self._tables.get(name)
        rules = self.config.tables.get(name, _NO_RULES) if table is None else table.rules
        return rules.durability or self.config.durability

    # --- time ---

    @property
    def due_at(self) -> float:
        """When `sweep` has something to do next: infinite when never, minus infinity when at once."""
        return -FOREVER if self.book.trash else self.book.due_at

    def sweep(self, now: float, most: int = 256) -> bool:
        """Remove some of what is due and let go of some of what was cleared; return whether there is more to do."""
        if self.book.due_at <= now:
            for table in self._tables.values():
                looked_at = table.expire(now, most)
                if looked_at >= most:
                    return True
                most -= looked_at
            self.book.due_at = min((table.due_at for table in self._tables.values()), default=float("inf"))
        self._let_go()
        return bool(self.book.trash)

    def __repr__(self) -> str:
        entries = sum(len(table) for table in self._tables.values())
        return f"<StashTables {len(self._tables)} tables, {entries} entries, {self.size_bytes} bytes>"

    # --- inside ---

    def _is_followed(self, table: Table) -> bool:
        return self._follows_all or table.rules.watch or table.name in self._followed

    def _note_rules(self, table: Table) -> None:
        if table.is_followed:
            self.book.notes.append(Note("ruled", table.name, None, self.book.next_version()))

    def _check_name(self, name: str, *, is_ours: bool) -> None:
        if not 0 < len(name) <= LONGEST_NAME:
            raise StashError(f"a table's name has 1 to {LONGEST_NAME} characters, not {len(name)}")
        if not _is_text(name):
            raise StashError(f"{name!r} cannot be the name of a table: it is no text that UTF-8 can say")
        if name.startswith(RESERVED) and not is_ours:
            raise StashError(f"table {name!r} is one of the stash's own, which may only be read; use another name")
        if name not in self._tables and len(self._tables) >= self.config.max_tables and not is_ours:
            raise StashError(
                f"there are {self.config.max_tables} tables already, so {name!r} cannot be made; use one table with "
                f"longer keys, delete some, or raise stash.max_tables"
            )

    def _let_go(self) -> None:
        """Take some of what was given up apart."""
        trash = self.book.trash
        for _ in range(_FREED_AT_ONCE):
            while trash and not trash[-1]:
                trash.pop()
            if not trash:
                return
            item = trash[-1].popitem()
            if item is not None and is_large(item[1].value):
                trash.append(item[1].value)

    def _put_back(self, table: Table, *, is_followed: bool) -> None:
        table.is_followed = is_followed
        self._tables[table.name] = table
