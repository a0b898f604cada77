"""Many changes in a row, as the fewest that come to the same."""

from __future__ import annotations

from collections.abc import Iterable

from dirtybus.stash.store import Change, Clear, Define, Drop, Erase, Upsert

__all__ = ["coalesced"]


def coalesced(changes: Iterable[Change]) -> list[Change]:
    """Return changes that leave a store as ``changes`` would: of each key the last word, of each collection the sum."""
    # by table, then by key; None is the table's own definition. What a clearing made moot is forgotten
    tables: dict[str, dict[bytes | None, Change]] = {}
    heads: dict[str, Clear | Drop] = {}
    for change in changes:
        match change:
            case Upsert():
                keys = tables.setdefault(change.row.table, {})
                before = keys.pop(change.row.key, None)
                keys[change.row.key] = _joined(before, change) if isinstance(before, Upsert) else change
            case Erase():
                keys = tables.setdefault(change.table, {})
                keys.pop(change.key, None)
                keys[change.key] = change
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
    return [*heads.values(), *(change for keys in tables.values() for change in keys.values())]


def _joined(before: Upsert, after: Upsert) -> Upsert:
    if after.is_new:
        return after
    put = dict(before.parts_put)
    gone = dict.fromkeys(before.parts_gone)
    for part in after.parts_gone:
        put.pop(part, None)
        gone[part] = None
    put |= dict(after.parts_put)
    return Upsert(after.row, tuple(put.items()), () if before.is_new else tuple(gone), is_new=before.is_new)
