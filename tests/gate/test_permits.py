"""The books of the permits, by example and by long random lives."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dirtybus.gate.permits import Permit, Permits, Phase, Scope


def running(permits: Permits[Permit]) -> Permit:
    permit = Permit(asked_at=0.0)
    permits.ask(permit)
    assert permit.phase is Phase.RUNNING
    permits.enter(permit.tree)
    return permit


def opened(limit: int | None) -> Permits[Permit]:
    permits: Permits[Permit] = Permits(limit)
    permits.opened = True
    return permits


def test_a_permit_waits_while_the_gate_is_shut_and_is_granted_when_it_opens() -> None:
    permits: Permits[Permit] = Permits(1)
    permit = Permit(asked_at=1.0)
    permits.ask(permit)
    assert permits.settle() == []
    permits.opened = True
    assert permits.settle() == [permit]
    assert permit.phase is Phase.GRANTED


def test_a_free_slot_does_not_let_a_newcomer_pass_one_that_has_not_woken() -> None:
    permits = opened(3)
    first, second = Permit(0.0), Permit(0.0)
    permits.opened = False
    permits.ask(first)
    permits.opened = True
    permits.settle()
    permits.ask(second)
    assert second.phase is Phase.WAITING
    permits.start(first)
    assert permits.settle() == [second]


def test_a_newcomer_does_not_pass_the_queue_of_a_gate_that_has_just_opened() -> None:
    permits: Permits[Permit] = Permits(3)
    first, second = Permit(0.0), Permit(0.0)
    permits.ask(first)
    permits.opened = True
    permits.ask(second)
    assert second.phase is Phase.WAITING
    assert permits.settle() == [first, second]


def test_whoever_waits_for_a_slot_that_is_lent_again_is_let_go() -> None:
    permits = opened(1)
    tree = running(permits)
    permits.enter(tree.tree)
    block = permits.open_block(tree.tree)
    permits.settle()
    other = running(permits)
    permits.close_block(block)
    assert permits.settle() == []
    permits.open_block(tree.tree)
    assert permits.settle() == [tree]
    assert (tree.phase, other.phase) == (Phase.LENT, Phase.RUNNING)


def test_a_returning_permit_goes_before_the_queue() -> None:
    permits = opened(1)
    tree = running(permits)
    block = permits.open_block(tree.tree)
    permits.settle()
    other = running(permits)
    waiting = Permit(0.0)
    permits.ask(waiting)
    permits.close_block(block)
    assert permits.settle() == []
    permits.leave(other.tree)
    assert permits.settle() == [tree]
    assert (tree.phase, waiting.phase) == (Phase.RUNNING, Phase.WAITING)


def test_an_execution_in_a_block_wants_the_slot_and_its_end_lends_it_again() -> None:
    permits = opened(1)
    tree = running(permits)
    block = permits.open_block(tree.tree)
    permits.settle()
    phases = [tree.phase]
    permits.enter(block)
    permits.settle()
    phases.append(tree.phase)
    permits.leave(block)
    permits.settle()
    phases.append(tree.phase)
    assert phases == [Phase.LENT, Phase.RUNNING, Phase.LENT]


def test_a_closed_block_counts_its_late_executions_to_the_scope_around_it() -> None:
    permits = opened(1)
    tree = running(permits)
    outer = permits.open_block(tree.tree)
    inner = permits.open_block(outer)
    permits.close_block(inner)
    assert inner.innermost_open() is outer
    permits.close_block(outer)
    assert inner.innermost_open() is tree.tree


def test_withdrawing_a_granted_permit_gives_its_slot_to_the_next() -> None:
    permits: Permits[Permit] = Permits(1)
    first, second = Permit(0.0), Permit(0.0)
    permits.ask(first)
    permits.ask(second)
    permits.opened = True
    assert permits.settle() == [first]
    permits.withdraw(first)
    assert permits.settle() == [second]


def test_a_permit_cannot_start_twice() -> None:
    permits = opened(1)
    permit = running(permits)
    with pytest.raises(AssertionError, match="a permit cannot go from running to running"):
        permits.start(permit)


@dataclass
class Life:
    """The test's own notes of a tree."""

    permit: Permit
    inside: list[Scope[Permit]] = field(default_factory=list)
    blocks: list[Scope[Permit]] = field(default_factory=list)


class PermitsMachine(RuleBasedStateMachine):
    """Asks, cancels, enters, leaves, lends and shuts at random; checks the books after each step."""

    limit: int | None = 2

    def __init__(self) -> None:
        super().__init__()
        self.permits: Permits[Permit] = Permits(self.limit)
        self.asked: list[Permit] = []
        self.granted: list[Permit] = []
        self.lives: list[Life] = []
        self.started: list[Permit] = []

    def settle(self) -> None:
        for permit in self.permits.settle():
            if permit.phase is Phase.GRANTED:
                self.granted.append(permit)

    def begin(self, permit: Permit) -> None:
        self.started.append(permit)
        self.lives.append(Life(permit, inside=[permit.tree]))
        self.permits.enter(permit.tree)
        self.settle()

    @rule()
    def ask(self) -> None:
        permit = Permit(float(len(self.asked)))
        self.asked.append(permit)
        self.permits.ask(permit)
        if permit.phase is Phase.RUNNING:
            self.begin(permit)

    @precondition(lambda self: self.granted)
    @rule()
    def wake(self) -> None:
        permit = self.granted.pop(0)
        self.permits.start(permit)
        self.settle()
        self.begin(permit)

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def cancel_a_granted_one(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.granted))
        self.granted.remove(permit)
        self.permits.withdraw(permit)
        self.settle()

    @precondition(lambda self: self.permits.pending)
    @rule(data=st.data())
    def cancel_a_waiting_one(self, data: st.DataObject) -> None:
        waiting = [permit for permit in self.asked if permit.phase is Phase.WAITING]
        self.permits.withdraw(data.draw(st.sampled_from(waiting)))
        self.settle()

    @rule(opened=st.booleans())
    def turn_the_gate(self, opened: bool) -> None:
        self.permits.opened = opened
        self.settle()

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def enter(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.lives))
        scope = data.draw(st.sampled_from([life.permit.tree, *life.blocks])).innermost_open()
        life.inside.append(scope)
        self.permits.enter(scope)
        self.settle()

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.lives))
        scope = data.draw(st.sampled_from(life.inside))
        life.inside.remove(scope)
        self.permits.leave(scope)
        self.settle()
        if not life.inside:
            assert life.permit.phase is Phase.GONE
            self.lives.remove(life)

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def open_block(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from(self.lives))
        life.blocks.append(self.permits.open_block(data.draw(st.sampled_from([life.permit.tree, *life.blocks]))))
        self.settle()

    @precondition(lambda self: any(life.blocks for life in self.lives))
    @rule(data=st.data())
    def close_block(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from([life for life in self.lives if life.blocks]))
        block = data.draw(st.sampled_from(life.blocks))
        life.blocks.remove(block)
        self.permits.close_block(block)
        self.settle()

    @invariant()
    def the_books_balance(self) -> None:
        self.permits.check_invariants()
        assert self.permits.live == len(self.lives) + len(self.granted)
        assert self.permits.pending == sum(permit.phase is Phase.WAITING for permit in self.asked)

    @invariant()
    def trees_start_in_the_order_in_which_they_asked(self) -> None:
        moments = [permit.asked_at for permit in self.started]
        assert moments == sorted(moments)

    @invariant()
    def a_tree_lends_its_slot_exactly_while_a_block_of_it_is_empty(self) -> None:
        for life in self.lives:
            lends = any(not any(scope is block for scope in life.inside) for block in life.blocks)
            assert lends == (life.permit.phase is Phase.LENT)
            assert life.permit.empty_blocks == sum(block not in life.inside for block in life.blocks)

    def teardown(self) -> None:
        for permit in self.granted:
            self.permits.withdraw(permit)
        for life in self.lives:
            for scope in life.inside:
                self.permits.leave(scope)
        self.permits.opened = True
        while granted := self.permits.settle():
            for permit in granted:
                if permit.phase is Phase.GRANTED:
                    self.permits.withdraw(permit)
        assert self.permits.is_idle
        assert self.permits.taken == 0


class UnboundedMachine(PermitsMachine):
    limit = None


TestPermitsOfTwo = PermitsMachine.TestCase
TestPermitsWithoutLimit = UnboundedMachine.TestCase
