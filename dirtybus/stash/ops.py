"""Operations on tables as plain values, and the one door by which they reach the tables. Opens no key and no value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from dirtybus.errors import StashError
from dirtybus.stash.tables import StashTables

__all__ = ["StashOp", "StashReply", "apply"]


class StashOp(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation. ``key`` is `key_bytes` of the key, ``value`` an encoded body; what a verb does not use is None."""

    verb: str
    table: str = ""
    key: bytes | None = None
    value: bytes | None = None
    pattern: str | None = None

    def __repr__(self) -> str:
        """Show what it is, never what it holds."""
        key = "" if self.key is None else f" key of {len(self.key)} bytes"
        value = "" if self.value is None else f" value of {len(self.value)} bytes"
        pattern = "" if self.pattern is None else f" pattern {self.pattern!r}"
        return f"<StashOp {self.verb} {self.table!r}{key}{value}{pattern}>"


class StashReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operation came to.

    ``is_true`` answers what the verb asks: was it there (get, pop, delete, exists, delete_table), was it made
    (ensure). Each other field holds what the verb returns, and is empty where it returns no such thing.
    """

    is_true: bool = True
    value: bytes | None = None
    count: int = 0
    keys: tuple[bytes, ...] = ()
    values: tuple[bytes, ...] = ()
    names: tuple[str, ...] = ()
    info: Mapping[str, str | int] | None = None

    def __repr__(self) -> str:
        """Show what it is, never what it holds."""
        value = "" if self.value is None else f" value of {len(self.value)} bytes"
        return f"<StashReply {self.is_true}{value} count {self.count}, {len(self.keys)} keys>"


def apply(tables: StashTables, op: StashOp) -> StashReply:
    """Carry out ``op`` on ``tables``. It is done wholly or, when this raises, not at all.

    Raises:
        StashError: no such verb (the message names the nearest), or the op lacks what its verb needs.
        StashTableNotFoundError: info on a table that is not there.
    """
    verb = _VERBS.get(op.verb)
    if verb is None:
        near = difflib.get_close_matches(op.verb, _VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_VERBS)}"
        raise StashError(f"there is no stash operation {op.verb!r:.60}; {hint}")
    return verb(tables, op)


def _key(op: StashOp) -> bytes:
    if op.key is None:
        raise StashError(f"stash operation {op.verb!r} on table {op.table!r} came without a key; send one")
    return op.key


def _value(op: StashOp) -> bytes:
    if op.value is None:
        raise StashError(f"stash operation {op.verb!r} on table {op.table!r} came without a value; send one")
    return op.value


def _found(value: bytes | None) -> StashReply:
    return StashReply(is_true=value is not None, value=value)


def _put(tables: StashTables, op: StashOp) -> StashReply:
    tables.put(op.table, _key(op), _value(op))
    return StashReply()


def _items(tables: StashTables, op: StashOp) -> StashReply:
    items = tables.items(op.table)
    return StashReply(keys=tuple(key for key, _ in items), values=tuple(value for _, value in items))


_VERBS: Final[Mapping[str, Callable[[StashTables, StashOp], StashReply]]] = {
    "put": _put,
    "get": lambda tables, op: _found(tables.get(op.table, _key(op))),
    "pop": lambda tables, op: _found(tables.pop(op.table, _key(op))),
    "setdefault": lambda tables, op: _found(tables.setdefault(op.table, _key(op), _value(op))),
    "delete": lambda tables, op: StashReply(is_true=tables.delete(op.table, _key(op))),
    "exists": lambda tables, op: StashReply(is_true=tables.exists(op.table, op.key)),
    "length": lambda tables, op: StashReply(count=tables.length(op.table)),
    "keys": lambda tables, op: StashReply(keys=tuple(tables.keys(op.table, op.pattern))),
    "items": _items,
    "clear": lambda tables, op: StashReply(count=tables.clear(op.table)),
    "info": lambda tables, op: StashReply(info=tables.info(op.table)),
    "ensure": lambda tables, op: StashReply(is_true=tables.ensure(op.table)),
    "delete_table": lambda tables, op: StashReply(is_true=tables.delete_table(op.table)),
    "tables": lambda tables, op: StashReply(names=tuple(tables.tables())),
}
