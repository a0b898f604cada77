"""All operations by their names on the wire: which there are, and how they are written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from dirtybus.errors import RemoteProtocolError, StashConflict, StashError
from dirtybus.stash.op import Op, StashReply, check_count
from dirtybus.stash.ops_entries import Cas, Delete, Exists, Get, Incr, Pop, Put, PutShared, SetDefault, Touch, Ttl
from dirtybus.stash.ops_leases import Acquire, LeaseInfo, Once, Release, Renew
from dirtybus.stash.ops_many import (
    Clear,
    DeleteMany,
    DeleteTable,
    Ensure,
    GetMany,
    Info,
    Length,
    Page,
    PutMany,
    Tables,
)
from dirtybus.stash.ops_parts import Add, PopItems, Push, Remove, Size
from dirtybus.stash.ops_watch import Watch

if TYPE_CHECKING:
    from dirtybus.stash.all_tables import StashTables

__all__ = ["Condition", "Simple", "StashOp", "StashReply", "Transact", "decode_op", "encode_op"]

#: What may stand in a transaction.
Simple = (
    Put | PutShared | Get | Pop | SetDefault | Delete | Exists | Touch | Ttl | Incr | Cas
    | PutMany | GetMany | DeleteMany | Page | Length | Clear | Info | Ensure | DeleteTable | Tables
    | Push | PopItems | Add | Remove | Size
)  # fmt: skip


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """That an entry still has a version; 0: that there is none."""

    table: str
    key: bytes
    version: int


class Transact(Op, frozen=True, tag="transact"):
    """Do all operations, or none: if a condition does not hold, or an operation is refused."""

    ops: tuple[Simple, ...]
    if_unchanged: tuple[Condition, ...] = ()

    def apply(self, tables: StashTables, now: float) -> StashReply:
        check_count(sum(op.weight for op in self.ops) + len(self.if_unchanged), "operations, keys and conditions")
        for condition in self.if_unchanged:
            table = tables.find(condition.table)
            entry = None if table is None else table.peek(condition.key, now)
            if (0 if entry is None else entry.version) != condition.version:
                raise StashConflict(
                    f"what stands in table {condition.table!r} was changed since the transaction looked at it; nothing "
                    f"was done: begin it again",
                    {"table_name": condition.table},
                )
        return tables.book.all_or_nothing(lambda: self._apply_all(tables, now))

    def _apply_all(self, tables: StashTables, now: float) -> StashReply:
        replies = []
        for number, op in enumerate(self.ops, 1):
            try:
                replies.append(op.apply(tables, now))
            except StashError as exc:
                exc.message = f"operation {number} of {len(self.ops)}, so nothing was done: {exc.message}"
                raise
        return StashReply(replies=tuple(replies), version=tables.book.version)


StashOp = Simple | Transact | Acquire | Renew | Release | Once | LeaseInfo | Watch

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StashOp).decode


def encode_op(op: StashOp) -> bytes:
    """Return the operation as bytes.

    Raises:
        StashError: a number in it is too large.
    """
    try:
        return _encode(op)
    except OverflowError as exc:
        raise StashError(f"{op!r}: a number does not fit into 64 bits: {exc}") from None


def decode_op(data: bytes | bytearray | memoryview) -> StashOp:
    """Read what `encode_op` wrote.

    Raises:
        RemoteProtocolError: it is no operation.
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise RemoteProtocolError(f"the peer sent what is no operation of the stash: {exc}") from exc
