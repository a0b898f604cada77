"""Permits: which event tree may run now, which waits, in which order. Pure; must never learn of asyncio or the bus.

An *event tree* is an execution with all that it calls and posts. It holds one permit for its whole life and never
more, so nothing in a tree can wait for a slot that its own tree holds. A permit lends its slot while one of its
*blocks* (a ``suspended()`` in the locker) is empty, that is, has no execution running in it.

Each method books one fact. `Permits.settle` then draws the consequences and says who may go on.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

__all__ = ["Permit", "Permits", "Phase", "Scope"]


class Phase(enum.Enum):
    """Where a permit stands: its name, whether it has a slot, whether its tree has been let in and lives."""

    WAITING = ("waiting", False, False)
    GRANTED = ("granted", True, True)  # has a slot, but its task has not woken yet
    RUNNING = ("running", True, True)
    LENT = ("lent", False, True)
    RETURNING = ("returning", False, True)  # wants its slot back
    GONE = ("gone", False, False)

    def __init__(self, label: str, has_slot: bool, is_live: bool) -> None:
        self.label = label
        self.has_slot = has_slot
        self.is_live = is_live


_NEXT: Final[Mapping[Phase, tuple[Phase, ...]]] = {
    Phase.WAITING: (Phase.RUNNING, Phase.GRANTED, Phase.GONE),
    Phase.GRANTED: (Phase.RUNNING, Phase.GONE),
    Phase.RUNNING: (Phase.GONE, Phase.LENT),
    Phase.LENT: (Phase.RETURNING, Phase.GONE),
    Phase.RETURNING: (Phase.RUNNING, Phase.LENT, Phase.GONE),
    Phase.GONE: (),
}


P = TypeVar("P", bound="Permit")


class Scope(Generic[P]):
    """Where an execution counts: its tree as a whole (``outer`` is None), or one block within it."""

    __slots__ = ("active", "is_open", "outer", "permit")

    def __init__(self, permit: P, outer: Scope[P] | None) -> None:
        self.permit = permit
        self.outer = outer
        self.active = 0
        self.is_open = True

    def innermost_open(self) -> Scope[P]:
        """Return the nearest scope that is still open; a tree's own scope never closes."""
        scope = self
        while not scope.is_open and scope.outer is not None:
            scope = scope.outer
        return scope


class Permit:
    """One tree's right to one slot. Only `Permits` changes it."""

    __slots__ = ("asked_at", "empty_blocks", "executions", "phase", "tree")

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.phase = Phase.WAITING
        self.executions = 0
        self.empty_blocks = 0
        # Any: the type of one's own subclass cannot be said here
        self.tree: Scope[Any] = Scope(self, None)


class Permits(Generic[P]):
    """``limit`` slots (None: no bound), a gate before the queue of new permits, and none before returning ones."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.opened = False
        self.taken = 0
        self.live = 0
        self._waking = 0
        self._queue: OrderedDict[P, None] = OrderedDict()
        self._returning: OrderedDict[P, None] = OrderedDict()
        self._touched: list[P] = []
        self._released: list[P] = []

    @property
    def free(self) -> int | None:
        """Slots that nobody has; None when there is no limit."""
        return None if self.limit is None else self.limit - self.taken

    @property
    def pending(self) -> int:
        """Permits in the queue."""
        return len(self._queue)

    @property
    def oldest(self) -> P | None:
        """The permit that has been in the queue for longest."""
        return next(iter(self._queue), None)

    @property
    def is_idle(self) -> bool:
        return not self.live and not self._queue

    @property
    def has_slot_for_next(self) -> bool:
        """Whether one more new permit would get a slot without waiting for another to give it back."""
        return self.opened and (self.limit is None or self.taken + len(self._queue) < self.limit)

    # --- a permit's life ---

    def ask(self, permit: P) -> None:
        """Let ``permit`` run at once when nobody is before it, else put it in the queue.

        One that has been granted but has not woken yet is before it too: it must start first.
        """
        if self.opened and self._has_room() and not self._queue and not self._waking:
            self._move(permit, Phase.RUNNING)
        else:
            self._queue[permit] = None

    def start(self, permit: P) -> None:
        """A granted permit's task has woken."""
        self._waking -= 1
        self._move(permit, Phase.RUNNING)

    def withdraw(self, permit: P) -> None:
        """A permit that has not started never will."""
        if permit.phase is Phase.GRANTED:
            self._waking -= 1
        else:
            del self._queue[permit]
        self._move(permit, Phase.GONE)

    def enter(self, scope: Scope[P]) -> None:
        """An execution began in ``scope``."""
        scope.permit.executions += 1
        scope.active += 1
        if scope.active == 1 and scope.outer is not None:
            self._count_empty(scope, -1)

    def leave(self, scope: Scope[P]) -> None:
        """An execution that began in ``scope`` ended; with the last one of the tree the permit is gone."""
        scope.permit.executions -= 1
        scope.active -= 1
        if scope.permit.executions == 0:
            self._end(scope.permit)
        elif scope.active == 0 and scope.is_open and scope.outer is not None:
            self._count_empty(scope, +1)

    def open_block(self, outer: Scope[P]) -> Scope[P]:
        """Begin a block, empty as yet, so that the tree lends its slot."""
        block = Scope(outer.permit, outer)
        self._count_empty(block, +1)
        return block

    def close_block(self, block: Scope[P]) -> None:
        """End a block; executions that are still in it go on as the tree's own."""
        block.is_open = False
        if block.active == 0:
            self._count_empty(block, -1)

    # --- consequences ---

    def settle(self) -> list[P]:
        """Lend, take back and give away slots; return the permits whose wait is over, in the order to wake them."""
        while self._touched:
            self._lend_or_reclaim(self._touched.pop())
        while self._has_room() and (permit := self._next_in_line()) is not None:
            returns = permit.phase is Phase.RETURNING
            self._move(permit, Phase.RUNNING if returns else Phase.GRANTED)
            self._waking += not returns
            self._released.append(permit)
        if not self._released:
            return []
        released, self._released = self._released, []
        return released

    def check_invariants(self) -> None:
        """Raise AssertionError when the books do not balance."""
        assert self.taken >= 0
        assert self.live >= self.taken
        assert self.limit is None or self.taken <= self.limit, "more slots taken than there are"
        assert 0 <= self._waking <= self.taken
        assert all(permit.phase is Phase.WAITING for permit in self._queue)
        assert all(permit.phase is Phase.RETURNING for permit in self._returning)
        idle_slot = self._has_room() and (self._returning or (self._queue and self.opened and not self._waking))
        assert not idle_slot, "a slot is free and somebody waits"

    def _count_empty(self, block: Scope[P], change: int) -> None:
        block.permit.empty_blocks += change
        self._touched.append(block.permit)

    def _has_room(self) -> bool:
        return self.limit is None or self.taken < self.limit

    def _next_in_line(self) -> P | None:
        if self._returning:
            return self._returning.popitem(last=False)[0]
        if self._queue and self.opened:
            return self._queue.popitem(last=False)[0]
        return None

    def _lend_or_reclaim(self, permit: P) -> None:
        lends = permit.empty_blocks > 0
        if lends and permit.phase is Phase.RUNNING:
            self._move(permit, Phase.LENT)
        elif lends and permit.phase is Phase.RETURNING:
            # whoever of the tree waits for the slot goes on without: waiting for an empty block could be for ever
            self._stop_returning(permit)
            self._move(permit, Phase.LENT)
        elif not lends and permit.phase is Phase.LENT:
            self._move(permit, Phase.RETURNING)
            self._returning[permit] = None

    def _stop_returning(self, permit: P) -> None:
        del self._returning[permit]
        self._released.append(permit)

    def _end(self, permit: P) -> None:
        if permit.phase is Phase.RETURNING:
            self._stop_returning(permit)
        self._move(permit, Phase.GONE)

    def _move(self, permit: P, phase: Phase) -> None:
        was = permit.phase
        assert phase in _NEXT[was], f"a permit cannot go from {was.label} to {phase.label}"
        permit.phase = phase
        self.taken += phase.has_slot - was.has_slot
        self.live += phase.is_live - was.is_live
