"""Leases by chance: whatever is asked in whatever order, nobody holds or waits who should not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.errors import DirtyError
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.leases import LEASES
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.ops_leases import Acquire, LeaseInfo, Once, Release, Renew

Holder = tuple[str, str]
NAMES = ("x", "y", "z")
CALLERS = ("a", "b", "c", "d")


@dataclass(eq=False)
class Question:
    """One who asked for a place."""

    number: int
    op: Acquire
    caller: str
    until: float
    answer: StashReply | None = None

    def settle(self, answer: StashReply | DirtyError) -> None:
        assert isinstance(answer, StashReply), answer
        assert self.answer is None, "it was answered twice"
        self.answer = answer


@dataclass
class Held:
    fencing: int
    until: float
    caller: str


@dataclass
class World:
    """A keeper, and what everybody was told."""

    chance: random.Random
    now: float = 0.0
    held: dict[Holder, Held] = field(default_factory=dict)
    waiting: list[Question] = field(default_factory=list)
    tokens: list[Holder] = field(default_factory=list)
    given_up: set[Holder] = field(default_factory=set)
    said_once: dict[str, tuple[str, float]] = field(default_factory=dict)
    last_fencing: int = 0
    count: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        self.keeper = Keeper(clock=lambda: self.now, first_version=0)
        self.leases = self.keeper.state.leases

    # --- what is done ---

    def step(self) -> None:
        self.now += self.chance.choice([0.0, 0.0, 0.25, 1.0, 4.0])
        self.chance.choices(
            [self.acquire, self.release, self.renew, self.leave, self.once, self.sweep], weights=[8, 4, 3, 1, 1, 3]
        )[0]()
        self.check()

    def acquire(self) -> None:
        if self.tokens and self.chance.random() < 0.2:
            name, token = self.chance.choice(self.tokens)
        else:
            name, token = self.new_token()
        if any((one.op.name, one.op.token) == (name, token) for one in self.waiting):
            return
        ttl_s, wait_s = self.chance.choice([0.5, 2.0, 8.0]), self.chance.choice([0.0, 1.0, 5.0, 30.0])
        op = Acquire(name, token, ttl_s, self.chance.choice([1, 1, 2, 3]), wait_s)
        self.count += 1
        question = Question(self.count, op, self.chance.choice(CALLERS), self.now + wait_s)
        was_held = self.valid().get((name, token))
        self.waiting.append(question)
        self.keeper.submit(op, question.caller, question.settle)
        if was_held is not None:
            assert question.answer is not None
            assert question.answer.version == was_held.fencing
        if (name, token) in self.given_up:
            assert question.answer is not None
            assert not question.answer.is_true

    def release(self) -> None:
        holder = self.chance.choice(self.tokens) if self.tokens and self.chance.random() < 0.9 else self.new_token()
        was_held = self.valid().get(holder)
        is_swept = holder not in self.leases._by_holder
        reply = self.ask(Release(*holder))
        assert reply.is_true == (was_held is not None)
        gone = [one for one in self.waiting if (one.op.name, one.op.token) == holder]
        for one in gone:
            assert one.answer is not None, "it waits although it was given up"
            assert not one.answer.is_true
            self.waiting.remove(one)
        if was_held is not None:
            del self.held[holder]
        elif is_swept:
            self.given_up.add(holder)

    def renew(self) -> None:
        if not self.tokens:
            return
        holder, ttl_s, caller = self.chance.choice(self.tokens), self.chance.choice([1.0, 8.0]), self.some_caller()
        was_held = self.valid().get(holder)
        reply = self.ask(Renew(*holder, ttl_s), caller)
        assert reply.is_true == (was_held is not None)
        if was_held is not None:
            assert reply.version == was_held.fencing
            self.held[holder] = Held(reply.version, self.now + ttl_s, caller)

    def leave(self) -> None:
        caller = self.some_caller()
        self.keeper.leave(caller)
        self.held = {holder: one for holder, one in self.held.items() if one.caller != caller}
        for one in [one for one in self.waiting if one.caller == caller]:
            assert one.answer is None, "who has left is told nothing"
            self.waiting.remove(one)

    def once(self) -> None:
        name, token = self.chance.choice(NAMES), self.chance.choice("pq")
        before = self.said_once.get(name)
        is_first = before is None or before[1] <= self.now
        assert self.ask(Once(name, token, 3.0)).is_true == (is_first or (before is not None and before[0] == token))
        if is_first:
            self.said_once[name] = (token, self.now + 3.0)

    def sweep(self) -> None:
        for _ in range(100):
            if not self.keeper.sweep():
                break
        else:
            raise AssertionError("the sweep does not end")
        self.take_answers()
        for one in self.waiting:
            assert one.until > self.now, "its wait is over"
            taken = self.places(one.op.name)
            assert taken.keys() >= set(range(one.op.places)), "it waits for a place that is free"
            assert all(holder in self.valid() for holder in taken.values())

    # --- what must be so ---

    def check(self) -> None:
        self.take_answers()
        for name in NAMES:
            holders = {one.fencing: one.until - self.now for (of, _), one in self.valid().items() if of == name}
            info = self.ask(LeaseInfo(name)).info
            assert info is not None
            assert {one["fencing"]: one["expires_in_s"] for one in info["holders"]} == holders
            for one in self.waiting:
                if one.op.name == name:
                    assert self.places(name).keys() >= set(range(one.op.places)), "a free place was not given on"
        assert self.keeper.waiting == len(self.waiting)

    def take_answers(self) -> None:
        answered = [one for one in self.waiting if one.answer is not None]
        self.waiting = [one for one in self.waiting if one.answer is None]
        given = sorted(
            ((one.answer.version, one) for one in answered if one.answer is not None and one.answer.is_true),
            key=lambda pair: pair[0],
        )
        while given:
            fencing, one = given.pop(0)
            holder = (one.op.name, one.op.token)
            before = self.valid().get(holder)
            if before is None:
                assert fencing > self.last_fencing
                self.last_fencing = fencing
                place = next(place for place, its in self.places(one.op.name).items() if its == holder)
                assert place < one.op.places
                for other in (*self.waiting, *(later for _, later in given)):
                    if other.op.name == one.op.name and other.number < one.number:
                        assert place >= other.op.places, "somebody was passed by"
            else:
                assert fencing == before.fencing
            self.held[holder] = Held(fencing, self.now + one.op.ttl_s, one.caller)
        for one in answered:
            if one.answer is not None and not one.answer.is_true:
                is_given_up = (one.op.name, one.op.token) in self.given_up
                assert is_given_up or one.until <= self.now, "it was turned away too early"

    def end(self) -> None:
        for caller in CALLERS:
            self.keeper.leave(caller)
        self.now += 100
        self.held, self.waiting = {}, []
        self.sweep()
        leases, keeper = self.leases, self.keeper
        assert [leases._by_name, leases._by_holder, leases._by_caller, keeper._waiting] == [{}, {}, {}, {}]
        assert leases._given_up.keys() == self.given_up
        assert (keeper.waiting, keeper._timeouts) == (0, [])
        if keeper.state.tables.find(LEASES) is not None:
            assert len(keeper.state.tables.get(LEASES)) == 0

    # --- helpers ---

    def ask(self, op: StashOp, caller: str = "nobody") -> StashReply:
        answers = list[StashReply | DirtyError]()
        self.keeper.submit(op, caller, answers.append)
        (answer,) = answers
        assert isinstance(answer, StashReply), answer
        return answer

    def valid(self) -> dict[Holder, Held]:
        return {holder: one for holder, one in self.held.items() if one.until > self.now}

    def places(self, name: str) -> dict[int, Holder]:
        return {place: held.holder for place, held in self.leases._by_name.get(name, {}).items()}

    def new_token(self) -> Holder:
        # a few tokens stand under several names
        self.made += 1
        holder = (self.chance.choice(NAMES), f"t{self.made // 2}")
        if holder not in self.tokens:
            self.tokens.append(holder)
        del self.tokens[:-12]
        return holder

    def some_caller(self) -> str:
        return self.chance.choice(CALLERS)


@settings(max_examples=150)
@given(st.integers(0, 2**64))
def test_nobody_holds_or_waits_who_should_not(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(120):
        world.step()
    world.end()
