"""Many changes in a row, as the fewest that come to the same."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Row, Upsert

__all__ = ["coalesced"]


class _Sum:
    """What several `Upsert`s of one key come to; the parts are kept apart, so that each change costs what it is."""

    __slots__ = ("gone", "is_new", "put", "row")

    def __init__(self, first: Upsert, *, is_new: bool) -> None:
        self.row: Row = first.row
        self.is_new = first.is_new or is_new
        self.put = dict(first.parts_put)
        self.gone = {} if self.is_new else dict.fromkeys(first.parts_gone)

    def add(self, change: Upsert) -> None:
        row = change.row
        if change.keeps_value:
            row = msgspec.structs.replace(row, value=self.row.value)
        self.row = row
        for part in change.parts_gone:
            self.put.pop(part, None)
            if not self.is_new:
                self.gone[part] = None
        self.put.update(change.parts_put)

    def whole(self) -> Upsert:
        return Upsert(self.row, tuple(self.put.items()), tuple(self.gone), is_new=self.is_new)


def coalesced(changes: Iterable[Change]) -> list[Change]:
    """Return changes that leave a store as ``changes`` would: of each key the last word, of each collection the sum."""
    # by table, then by key; None is the table's own definition. What a clearing made moot is forgotten
    tables: dict[str, dict[bytes | None, _Sum | Change]] = {}
    heads: dict[str, Clear | Drop] = {}
    for change in changes:
        match change:
            case Upsert():
                _take(tables.setdefault(change.row.table, {}), change)
            case Erase():
                tables.setdefault(change.table, {})[change.key] = change
            case Define():
                tables.setdefault(change.table, {})[None] = change
            case Drop():
                tables[change.table] = {}
                heads[change.table] = change
            case Clear():
                definition = tables.get(change.table, {}).get(None)
                tables[change.table] = {} if definition is None else {None: definition}
                # a table that was dropped and made again is dropped all the same
                heads.setdefault(change.table, change)
    rest = (change for keys in tables.values() for change in keys.values())
    return [*heads.values(), *(change.whole() if isinstance(change, _Sum) else change for change in rest)]


def _take(keys: dict[bytes | None, _Sum | Change], change: Upsert) -> None:
    before = keys.get(change.row.key)
    if isinstance(before, _Sum) and not change.is_new:
        before.add(change)
    elif isinstance(before, Erase) and change.keeps_value:
        return  # there is none to be kept
    else:  # after an `Erase`, there are no earlier parts that could stay
        keys[change.row.key] = _Sum(change, is_new=isinstance(before, Erase))
