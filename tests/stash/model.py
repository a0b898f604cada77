"""What the tables should do, written with dicts and no thought of speed."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from dirtybus.config.stash import TableConfig
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.stash.entry import ENTRY_BYTES
from dirtybus.stash.op import Op
from dirtybus.stash.ops import Transact
from dirtybus.stash.ops_entries import Cas, Delete, Exists, Get, Incr, Pop, Put, SetDefault, Touch, Ttl
from dirtybus.stash.ops_many import Clear, DeleteMany, DeleteTable, Ensure, GetMany, Length, Page, PutMany
from dirtybus.stash.ops_parts import Add, PopItems, Push, Remove, Size
from dirtybus.stash.parts import PART_BYTES, list_body

Value = bytes | list[bytes] | set[bytes]


class Refused(Exception):
    """The stash would raise a StashError."""


@dataclass
class Cell:
    value: Value
    expires_at: float
    ttl_s: float
    idle_s: float
    used_at: float

    @property
    def due_at(self) -> float:
        return min(self.expires_at, self.used_at + self.idle_s)


@dataclass
class Shelf:
    """One table; the order of ``cells`` is that of their use where the oldest is evicted, else of their coming."""

    rules: TableConfig
    cells: dict[bytes, Cell] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        return sum(memory_of(key, cell.value) for key, cell in self.cells.items())


def memory_of(key: bytes, value: Value) -> int:
    parts = 0 if isinstance(value, bytes) else PART_BYTES * len(value) - len(value) + sum(map(len, value))
    return ENTRY_BYTES + len(key) + len(value) + parts


def parts_of(body: bytes, kind: type[list[bytes] | set[bytes]]) -> Value | None:
    value = decode_body(body)
    return kind(encode_whole(part)[1:] for part in value) if type(value) is kind else None


def same(value: Value) -> object:
    """Return what is equal for values that are."""
    if isinstance(value, bytes):
        members = parts_of(value, set)
        return value if members is None else frozenset(members)
    return list_body(value) if isinstance(value, list) else frozenset(value)


class Model:
    def __init__(self, rules: dict[str, TableConfig], max_bytes: int | None) -> None:
        self.rules = rules
        self.max_bytes = max_bytes
        self.shelves: dict[str, Shelf] = {}
        self.now = 0.0

    def do(self, op: Op, now: float) -> object:
        """Return what the operation comes to; raise Refused as the stash would."""
        self.now = now
        before = copy.deepcopy(self.shelves)
        try:
            return getattr(self, type(op).__name__.lower())(op)
        except Refused:
            if isinstance(op, Transact | PutMany) or self.shelves.keys() != before.keys():
                self.shelves = before
            raise

    def sweep(self, now: float) -> None:
        for shelf in self.shelves.values():
            self._expire(shelf, now)

    # --- one entry ---

    def put(self, op: Put) -> object:
        self._put(self._made(op.table), op.key, self._fresh(op, op.value))
        return True

    def get(self, op: Get) -> object:
        cell = self._find(op.table, op.key)
        return None if cell is None else same(cell.value)

    def pop(self, op: Pop) -> object:
        cell = self._peek(op.table, op.key)
        if cell is None:
            return None
        del self.shelves[op.table].cells[op.key]
        return same(cell.value)

    def delete(self, op: Delete) -> object:
        return self.pop(Pop(op.table, op.key)) is not None

    def setdefault(self, op: SetDefault) -> object:
        self._made(op.table)
        cell = self._find(op.table, op.key)
        if cell is None:
            cell = self._put(self._made(op.table), op.key, self._fresh(op, op.value))
        return same(cell.value)

    def exists(self, op: Exists) -> object:
        return op.table in self.shelves if op.key is None else self._peek(op.table, op.key) is not None

    def touch(self, op: Touch) -> object:
        cell = self._find(op.table, op.key)
        if cell is None:
            return False
        cell.ttl_s = cell.ttl_s if op.expires_in_s is None else op.expires_in_s
        cell.expires_at = self.now + cell.ttl_s
        return True

    def ttl(self, op: Ttl) -> object:
        cell = self._peek(op.table, op.key)
        return None if cell is None or cell.due_at == math.inf else cell.due_at - self.now

    def incr(self, op: Incr) -> object:
        self._made(op.table)
        cell = self._find(op.table, op.key)
        number: int | None = 0
        if cell is not None:
            number = decode_body(cell.value) if isinstance(cell.value, bytes) else None
            if type(number) is not int:
                raise Refused
        assert number is not None
        value = encode_whole(number + op.by)
        self._renew(op, cell, value)
        return value

    def cas(self, op: Cas) -> object:
        is_there = op.table in self.shelves
        cell = self._find(op.table, op.key)
        if op.expected is None or cell is None:
            if op.expected is not None or cell is not None:
                return False
        elif same(cell.value) != same(op.expected):
            return False
        if op.new is None:
            if is_there and cell is not None:
                del self.shelves[op.table].cells[op.key]
            return True
        self._made(op.table)
        self._renew(op, cell, op.new)
        return True

    # --- many entries ---

    def putmany(self, op: PutMany) -> object:
        shelf = self._made(op.table)
        for key, value in zip(op.keys, op.values, strict=True):
            self._put(shelf, key, self._fresh(op, value))
        return len(op.keys)

    def getmany(self, op: GetMany) -> object:
        cells = [self._find(op.table, key) for key in op.keys]
        return [None if cell is None else same(cell.value) for cell in cells]

    def deletemany(self, op: DeleteMany) -> object:
        return sum(self.delete(Delete(op.table, key)) is True for key in op.keys)

    def page(self, op: Page) -> object:
        shelf = self.shelves.get(op.table)
        return sorted(key for key, cell in shelf.cells.items() if cell.due_at > self.now) if shelf else []

    def length(self, op: Length) -> object:
        return len(self.shelves[op.table].cells) if op.table in self.shelves else 0

    def clear(self, op: Clear) -> object:
        count = self.length(Length(op.table))
        if op.table in self.shelves:
            self.shelves[op.table].cells.clear()
        return count

    def ensure(self, op: Ensure) -> object:
        is_new = op.table not in self.shelves
        shelf = self._made(op.table)
        if op.rules is not None:
            shelf.rules = op.rules.as_config()
        return is_new

    def deletetable(self, op: DeleteTable) -> object:
        return self.shelves.pop(op.table, None) is not None

    # --- parts ---

    def push(self, op: Push) -> object:
        self._made(op.table)
        cell = self._find(op.table, op.key)
        if cell is None:
            items: Value = list(reversed(op.items)) if op.is_left else list(op.items)
            return len(self._put(self._made(op.table), op.key, self._fresh(op, items)).value)
        old = self._apart(cell, list)
        assert isinstance(old, list)
        new = [*reversed(op.items), *old] if op.is_left else [*old, *op.items]
        self._change(op.table, op.key, cell, new)
        return len(new)

    def popitems(self, op: PopItems) -> object:
        cell = self._find(op.table, op.key)
        if cell is None:
            return None
        items = self._apart(cell, list)
        assert isinstance(items, list)
        self._change(op.table, op.key, cell, items, is_checked=isinstance(cell.value, bytes))
        taken = items[: op.count] if op.is_left else items[::-1][: op.count]
        cell = self.shelves[op.table].cells[op.key]
        cell.value = items[len(taken) :] if op.is_left else items[: len(items) - len(taken)]
        return list_body(taken) if taken else None

    def add(self, op: Add) -> object:
        self._made(op.table)
        cell = self._find(op.table, op.key)
        if cell is None:
            return len(self._put(self._made(op.table), op.key, self._fresh(op, set(op.members))).value)
        members = self._apart(cell, set)
        assert isinstance(members, set)
        self._change(op.table, op.key, cell, members | {*op.members})
        return len({*op.members} - members)

    def remove(self, op: Remove) -> object:
        cell = self._find(op.table, op.key)
        if cell is None:
            return 0
        members = self._apart(cell, set)
        assert isinstance(members, set)
        self._change(op.table, op.key, cell, members, is_checked=isinstance(cell.value, bytes))
        self.shelves[op.table].cells[op.key].value = members - {*op.members}
        return len(members & {*op.members})

    def size(self, op: Size) -> object:
        cell = self._find(op.table, op.key)
        if cell is None or not isinstance(cell.value, bytes):
            return 0 if cell is None else len(cell.value)
        items, members = parts_of(cell.value, list), parts_of(cell.value, set)
        if items is None and members is None:
            raise Refused
        return len(items or members or ())

    # --- together ---

    def transact(self, op: Transact) -> object:
        return [getattr(self, type(one).__name__.lower())(one) for one in op.ops]

    # --- inside ---

    def _made(self, name: str) -> Shelf:
        return self.shelves.setdefault(name, Shelf(self.rules.get(name, TableConfig())))

    def _fresh(self, op: Put | SetDefault | Incr | Cas | PutMany | Push | Add, value: Value) -> Cell:
        rules = self._made(op.table).rules
        ttl_s, idle_s = (
            asked if asked is not None else math.inf if ruled is None else ruled
            for asked, ruled in ((op.expires_in_s, rules.expires_in_s), (op.idle_s, rules.idle_s))
        )
        return Cell(value, self.now + ttl_s, ttl_s, idle_s, self.now)

    def _peek(self, name: str, key: bytes) -> Cell | None:
        shelf = self.shelves.get(name)
        cell = None if shelf is None else shelf.cells.get(key)
        return None if cell is None or cell.due_at <= self.now else cell

    def _find(self, name: str, key: bytes) -> Cell | None:
        shelf = self.shelves.get(name)
        if shelf is None or (cell := shelf.cells.get(key)) is None:
            return None
        if cell.due_at <= self.now:
            del shelf.cells[key]
            return None
        cell.used_at = self.now
        if shelf.rules.on_full == "lru":
            shelf.cells[key] = shelf.cells.pop(key)
        return cell

    def _put(self, shelf: Shelf, key: bytes, cell: Cell) -> Cell:
        old = shelf.cells.get(key)
        if old is not None and old.due_at <= self.now:
            del shelf.cells[key]
            old = None
        self._make_room(shelf, key, cell.value)
        if shelf.rules.on_full == "lru":
            shelf.cells.pop(key, None)
        shelf.cells[key] = cell
        return cell

    def _renew(self, op: Incr | Cas, cell: Cell | None, value: bytes) -> None:
        shelf = self._made(op.table)
        if cell is None:
            self._put(shelf, op.key, self._fresh(op, value))
        else:
            self._put(shelf, op.key, Cell(value, cell.expires_at, cell.ttl_s, cell.idle_s, self.now))

    def _change(self, name: str, key: bytes, cell: Cell, value: Value, *, is_checked: bool = True) -> None:
        if is_checked:
            self._put(self.shelves[name], key, Cell(value, cell.expires_at, cell.ttl_s, cell.idle_s, self.now))

    def _apart(self, cell: Cell, kind: type[list[bytes] | set[bytes]]) -> Value:
        if not isinstance(cell.value, bytes):
            if type(cell.value) is not kind:
                raise Refused
            return copy.copy(cell.value)
        parts = parts_of(cell.value, kind)
        if parts is None:
            raise Refused
        return parts

    def _make_room(self, shelf: Shelf, key: bytes, value: Value) -> None:
        if self._fits(shelf, key, value):
            return
        self._expire(shelf, self.now)
        others = [other for other in shelf.cells if other != key]
        trial = copy.copy(shelf.cells)
        if shelf.rules.on_full == "lru":
            for other in others:
                if self._fits(shelf, key, value):
                    break
                del shelf.cells[other]
        if not self._fits(shelf, key, value):
            shelf.cells = trial
            raise Refused

    def _fits(self, shelf: Shelf, key: bytes, value: Value) -> bool:
        old = shelf.cells.get(key)
        more = memory_of(key, value) - (0 if old is None else memory_of(key, old.value))
        rules = shelf.rules
        if old is None and rules.max_entries is not None and len(shelf.cells) + 1 > rules.max_entries:
            return False
        total = sum(other.memory_bytes for other in self._all(shelf))
        return more <= 0 or (
            (rules.max_bytes is None or shelf.memory_bytes + more <= rules.max_bytes)
            and (self.max_bytes is None or total + more <= self.max_bytes)
        )

    def _all(self, shelf: Shelf) -> Iterable[Shelf]:
        return self.shelves.values() if any(shelf is one for one in self.shelves.values()) else [shelf]

    def _expire(self, shelf: Shelf, now: float) -> None:
        for key, cell in list(shelf.cells.items()):
            if cell.due_at <= now:
                del shelf.cells[key]
