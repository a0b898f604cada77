"""The operations on many entries, and on whole tables."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from dirtybus.errors import ConfigError, StashError
from dirtybus.stash.entry import ENTRY_BYTES
from dirtybus.stash.glob import compile_glob
from dirtybus.stash.names import RESERVED
from dirtybus.stash.op import Op, StashReply, body_of, check_count, check_spans, new_entry
from dirtybus.stash.pages import page_of

if TYPE_CHECKING:
    from dirtybus.config.stash import TableConfig
    from dirtybus.stash.all_tables import StashTables
    from dirtybus.stash.one_table import Table

__all__ = [
    "Clear",
    "DeleteMany",
    "DeleteTable",
    "Ensure",
    "GetMany",
    "Info",
    "Length",
    "Page",
    "PutMany",
    "Rules",
    "Tables",
]

#: A page of entries holds so much at most, but always one entry.
_PAGE_BYTES: Final = 1024 * 1024
_MOST_ON_A_PAGE: Final = 10_000


class PutMany(Op, frozen=True, tag="put_many"):
    """Store many values, all of them or none."""

    table: str
    keys: tuple[bytes, ...]
    values: tuple[bytes, ...]
    expires_in_s: float | None = None
    idle_s: float | None = None

    @property
    def weight(self) -> int:
        return len(self.keys)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.keys), "entries")
        check_spans(self.expires_in_s, self.idle_s)
        if len(self.keys) != len(self.values):
            raise StashError(f"{len(self.keys)} keys came with {len(self.values)} values; each key has one")
        table = tables.find(self.table)
        if table is not None and not self.table.startswith(RESERVED) and self._surely_fits(table):
            return self._put(table, now)  # nothing can be refused in the middle, so nothing need be remembered for that
        return tables.book.all_or_nothing(lambda: self._put(tables.made(self.table), now))

    def _surely_fits(self, table: Table) -> bool:
        size_bytes = sum(map(len, self.keys)) + sum(map(len, self.values))
        return table.has_room(size_bytes + ENTRY_BYTES * len(self.keys), len(self.keys))

    def _put(self, table: Table, now: float) -> StashReply:
        for key, value in zip(self.keys, self.values, strict=True):
            table.put(key, new_entry(table, value, now, self.expires_in_s, self.idle_s), now)
        return StashReply(count=len(self.keys), version=table.book.version)


class GetMany(Op, frozen=True, tag="get_many"):
    """Ask for many values at one moment; None for those that are not there."""

    writes = False

    table: str
    keys: tuple[bytes, ...]

    @property
    def weight(self) -> int:
        return len(self.keys)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.keys), "keys")
        table = tables.find(self.table)
        if table is None:
            return StashReply(values=(None,) * len(self.keys))
        found = [table.find(key, now) for key in self.keys]
        return StashReply(values=tuple(None if entry is None else body_of(entry.value) for entry in found))


class DeleteMany(Op, frozen=True, tag="delete_many"):
    """Remove many entries; ``count`` is how many were there."""

    table: str
    keys: tuple[bytes, ...]

    @property
    def weight(self) -> int:
        return len(self.keys)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(len(self.keys), "keys")
        if tables.find(self.table) is None:
            return StashReply()
        table = tables.made(self.table)
        return StashReply(count=sum(table.delete(key, now) is not None for key in self.keys))


class Page(Op, frozen=True, tag="page"):
    """Ask for some entries, or for their keys alone, and for the cursor of the next ones.

    Every entry that is there from the first page to the last one is given exactly once; one that comes or goes
    meanwhile may be given or not. A page may be empty and yet not be the last.
    """

    writes = False

    table: str
    cursor: tuple[int, int] | None = None
    most: int = 1000
    pattern: str | None = None
    has_values: bool = False
    has_spans: bool = False

    @property
    def weight(self) -> int:
        return self._most

    @property
    def _most(self) -> int:
        return min(max(1, self.most), _MOST_ON_A_PAGE)

    def apply(self, tables: StashTables, now: float) -> StashReply:
        # compiled first: a wrong pattern is wrong whatever the table holds
        glob = None if self.pattern is None else compile_glob(self.pattern)
        table = tables.find(self.table)
        if table is None:
            return StashReply()
        # hashes differ from one process to the next, so a cursor is good for one owner only
        if self.cursor is not None and self.cursor[0] != tables.first_version:
            raise StashError(f"the owner of table {self.table!r} was started anew during the scan; begin it again")
        cursor = None if self.cursor is None else self.cursor[1]
        page, at = page_of(table.entries, cursor, self._most, _PAGE_BYTES, glob, now)
        return StashReply(
            keys=tuple(key for key, _ in page),
            values=tuple(body_of(entry.value) for _, entry in page) if self.has_values else (),
            spans=tuple((entry.expires_at - now, entry.idle_s) for _, entry in page) if self.has_spans else (),
            cursor=None if at is None else (tables.first_version, at),
        )


class Length(Op, frozen=True, tag="length"):
    """How many entries there are."""

    writes = False

    table: str

    def apply(self, tables: StashTables, now: float) -> StashReply:
        table = tables.find(self.table)
        return StashReply(count=0 if table is None else len(table))


class Clear(Op, frozen=True, tag="clear"):
    """Remove every entry but not the table; ``count`` is how many there were."""

    table: str

    def apply(self, tables: StashTables, now: float) -> StashReply:
        return StashReply(count=0 if tables.find(self.table) is None else tables.made(self.table).clear())


class Info(Op, frozen=True, tag="info"):
    """What is known of a table."""

    writes = False

    table: str

    def apply(self, tables: StashTables, now: float) -> StashReply:
        return StashReply(info=tables.info(self.table))


class Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a `TableConfig`."""

    expires_in_s: float | None = None
    idle_s: float | None = None
    max_entries: int | None = None
    max_bytes: int | None = None
    on_full: Literal["refuse", "lru"] = "refuse"
    durability: Literal["none", "async", "sync"] | None = None
    watch: bool = False

    def as_config(self) -> TableConfig:
        """Return the rules.

        Raises:
            StashError: a field does not fit.
        """
        from dirtybus.config.stash import TableConfig  # not on top: a worker needs no settings

        try:
            return TableConfig(**msgspec.structs.asdict(self))
        except ConfigError as exc:
            raise StashError(f"the rules of a table: {exc}") from None

    def to_bytes(self) -> bytes:
        """Return the rules for a store."""
        return _encode_rules(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Rules:
        """Return the rules that `to_bytes` wrote.

        Raises:
            StashError: they are of a later version, or damaged.
        """
        try:
            return _decode_rules(data)
        except msgspec.MsgspecError as exc:
            raise StashError(f"the rules of a table cannot be read: {exc}") from None

    @classmethod
    def of(cls, config: TableConfig) -> Rules:
        """Return the rules of a `TableConfig`."""
        return cls(**dataclasses.asdict(config))


_encode_rules: Final = msgspec.msgpack.Encoder().encode
_decode_rules: Final = msgspec.msgpack.Decoder(Rules).decode


class Ensure(Op, frozen=True, tag="ensure"):
    """Make a table unless it is there; with rules, let these hold from now on. ``is_true``: it was made."""

    table: str
    rules: Rules | None = None

    def apply(self, tables: StashTables, now: float) -> StashReply:
        if self.rules is not None:
            return StashReply(is_true=tables.set_rules(self.table, self.rules.as_config()))
        is_new = tables.find(self.table) is None
        tables.made(self.table)
        return StashReply(is_true=is_new)


class DeleteTable(Op, frozen=True, tag="delete_table"):
    """Remove a table with all its entries; ``is_true``: there was one."""

    table: str

    def apply(self, tables: StashTables, now: float) -> StashReply:
        return StashReply(is_true=tables.delete_table(self.table))


class Tables(Op, frozen=True, tag="tables"):
    """The names of all tables."""

    writes = False

    def apply(self, tables: StashTables, now: float) -> StashReply:
        return StashReply(names=tuple(tables.names()))
