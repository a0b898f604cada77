from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.config.stash import StashConfig, TableConfig
from dirtybus.errors import StashError
from dirtybus.protocol.codec import encode_whole
from dirtybus.stash import buckets
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import Op, StashReply, body_of
from dirtybus.stash.ops import Transact
from dirtybus.stash.ops_entries import Cas, Delete, Exists, Get, Incr, Pop, Put, SetDefault, Touch, Ttl
from dirtybus.stash.ops_many import Clear, DeleteMany, DeleteTable, Ensure, GetMany, Length, Page, PutMany, Rules
from dirtybus.stash.ops_parts import Add, PopItems, Push, Remove, Size
from tests.stash.model import Model, Refused, same
from tests.stash.replay import World, check, everything, replay, world_of

RULES = {
    "plain": TableConfig(),
    "spans": TableConfig(expires_in_s=20, idle_s=10),
    "few": TableConfig(max_entries=3),
    "small": TableConfig(max_bytes=1500),
    "lru": TableConfig(on_full="lru", max_entries=3),
    "lru bytes": TableConfig(on_full="lru", max_bytes=1500, idle_s=15),
}
MOST_BYTES = 6000

KEYS = [key_bytes(f"k{number}") for number in range(7)]
PARTS = [encode_whole(part)[1:] for part in (1, "two", (3,), b"4" * 40)]
VALUES = [
    encode_whole(value) for value in (0, 7, "text", [1, "two"], {1, "two"}, [], "x" * 300, "y" * 1400, "z" * 9000)
]
SPANS = [None, None, 1e-300, 3.0, 12.0, math.inf]


class Chance:
    """Makes operations on some tables by chance."""

    def __init__(self, chance: random.Random, names: list[str]) -> None:
        self.pick = chance.choice
        self.some = chance.choices
        self.number = chance.randint
        self.names = names

    def spans(self) -> tuple[float | None, float | None]:
        return self.pick(SPANS), self.pick(SPANS)

    def simple(self) -> Any:
        name, key, value, number = self.pick(self.names), self.pick(KEYS), self.pick(VALUES), self.number(0, 4)
        some, parts = tuple(self.some(KEYS, k=number)), tuple(self.some(PARTS, k=number))
        makers: list[Callable[[], Op]] = [
            lambda: Put(name, key, value, *self.spans()),
            lambda: Put(name, key, value),
            lambda: Get(name, key),
            lambda: Pop(name, key),
            lambda: SetDefault(name, key, value, *self.spans()),
            lambda: Delete(name, key),
            lambda: Exists(name, self.pick([None, key])),
            lambda: Touch(name, key, self.pick(SPANS)),
            lambda: Ttl(name, key),
            lambda: Incr(name, key, self.number(-3, 300), *self.spans()),
            lambda: Cas(name, key, self.pick([None, *VALUES]), self.pick([None, *VALUES]), *self.spans()),
            lambda: PutMany(name, some, tuple(self.some(VALUES, k=number)), *self.spans()),
            lambda: GetMany(name, some),
            lambda: DeleteMany(name, some),
            lambda: Page(name),
            lambda: Length(name),
            lambda: Push(name, key, parts, self.pick([True, False]), *self.spans()),
            lambda: PopItems(name, key, number + 1, self.pick([True, False])),
            lambda: Add(name, key, parts, *self.spans()),
            lambda: Remove(name, key, parts),
            lambda: Size(name, key),
        ]
        rare: list[Callable[[], Op]] = [
            lambda: Clear(name),
            lambda: DeleteTable(name),
            lambda: Ensure(name),
            lambda: Ensure("plain", Rules(expires_in_s=self.pick([None, 5.0]))),
        ]
        return self.pick(rare if self.number(0, 15) == 0 else makers)()

    def op(self) -> Any:
        if self.number(0, 3):
            return self.simple()
        return Transact(tuple(self.simple() for _ in range(self.number(0, 5))))


def said(op: Op, reply: StashReply) -> object:
    """Return what a reply says, in the model's words."""
    match op:
        case Transact():
            return [said(one, its) for one, its in zip(op.ops, reply.replies, strict=True)]
        case Get() | Pop() | SetDefault():
            return None if reply.value is None else same(reply.value)
        case Incr() | PopItems():
            return reply.value
        case Ttl():
            return reply.span_s
        case GetMany():
            return [None if value is None else same(value) for value in reply.values]
        case Page():
            return sorted(reply.keys)  # their order is looked at in `compare`
        case PutMany() | DeleteMany() | Length() | Clear() | Push() | Add() | Remove() | Size():
            return reply.count
    return reply.is_true


class Play:
    """Real tables and a model of them, side by side."""

    def __init__(self, rules: dict[str, TableConfig], max_bytes: int | None = MOST_BYTES) -> None:
        self.real = StashTables(StashConfig(max_bytes=max_bytes, tables=rules), follows_all=True)
        self.model = Model(rules, max_bytes)
        self.copy: World = {}
        self.now = 0.0

    def step(self, after_s: float, op: Op | None) -> None:
        self.now += after_s
        version = self.real.book.version
        if op is None:
            self.sweep()
        else:
            self.ask(op)
        notes = self.real.book.take_notes()
        versions = [note.version for note in notes]
        assert all(version < one <= self.real.book.version for one in versions)
        assert len({*versions}) == len(versions)
        replay(self.copy, notes)
        assert self.copy == world_of(self.real)
        check(self.real)
        self.compare()

    def ask(self, op: Op) -> None:
        before = everything(self.real)
        try:
            expected = self.model.do(op, self.now)
        except Refused:
            with pytest.raises(StashError):
                op.apply(self.real, self.now)
            if isinstance(op, Transact | PutMany):
                assert everything(self.real) == before
                assert self.real.book.notes == []
            return
        reply = op.apply(self.real, self.now)
        assert said(op, reply) == expected, op

    def sweep(self) -> None:
        for _ in range(1000):
            if not self.real.sweep(self.now, most=2):
                break
        else:
            raise AssertionError("the sweep does not end")
        assert self.real.due_at > self.now
        self.model.sweep(self.now)

    def compare(self) -> None:
        assert self.real.names() == sorted(self.model.shelves)
        for name, shelf in self.model.shelves.items():
            table = self.real.get(name)
            assert table.rules == shelf.rules
            found = {key: entry for _, key, entry in table.entries.after(None)}
            assert found.keys() == shelf.cells.keys()
            for key, cell in shelf.cells.items():
                entry = found[key]
                assert same(body_of(entry.value)) == same(cell.value)
                assert (entry.expires_at, entry.ttl_s, entry.idle_s) == (cell.expires_at, cell.ttl_s, cell.idle_s)
                if cell.idle_s != math.inf:
                    assert entry.due_at == cell.due_at
            if len(table.entries.all) == 1:
                assert list(table.entries) == list(shelf.cells)  # in the order they came, or were used


def play(seed: int, rules: dict[str, TableConfig], max_bytes: int | None, length: int) -> None:
    chance = random.Random(seed)
    names = chance.sample(list(rules), k=min(2, len(rules)))
    maker, game = Chance(chance, names), Play(rules, max_bytes)
    for _ in range(length):
        game.step(chance.choice([0.25, 0.25, 1.0, 9.0]), None if chance.random() < 0.15 else maker.op())


@given(st.integers(0, 2**64))
def test_the_tables_do_what_dicts_would(seed: int) -> None:
    play(seed, RULES, MOST_BYTES, 100)


@settings(max_examples=50)
@given(st.integers(0, 2**64))
def test_they_do_so_while_their_buckets_split(seed: int) -> None:
    # which of several that were used at the same time is evicted is not said, so there are no bounds here
    with mock.patch.object(buckets, "SPLIT_AT", 2):
        play(seed, {"plain": RULES["plain"], "spans": RULES["spans"]}, None, 60)


@settings(max_examples=50)
@given(st.integers(0, 2**64))
def test_the_one_used_the_longest_time_ago_goes_first(seed: int) -> None:
    play(seed, {name: rules for name, rules in RULES.items() if rules.on_full == "lru"}, MOST_BYTES, 100)
