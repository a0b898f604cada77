"""The calls that wait in one lane, and whose turn it is among their callers. Knows no other lane and no worker."""

from __future__ import annotations

from dirtybus.pool.model import CallId, Waiting
from dirtybus.pool.ranking import Ranking

__all__ = ["Line", "Turns"]


class Line:
    """The calls of one caller at one priority, in the order of their acceptance.

    ``turn`` is the line's place in the round. A call that came back from a worker has had its turn: while one is at
    the head, that turn counts, so that no crash sends a caller to the end of the round.
    """

    __slots__ = ("_had", "calls", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.calls: Ranking[CallId] = Ranking()
        self._had: dict[CallId, int] = {}

    def put(self, waiting: Waiting) -> None:
        self.calls.put(waiting.call.id, waiting.order)
        if waiting.turn is not None:
            self._had[waiting.call.id] = waiting.turn

    def drop(self, call_id: CallId) -> None:
        self.calls.drop(call_id)
        self._had.pop(call_id, None)

    def rank(self) -> int:
        """Return the turn that the head has, or waits for."""
        head = self.calls.first()
        return self.turn if head is None else self._had.get(head, self.turn)

    def spend(self, new_turn: int) -> None:
        """A call went out in this line's turn: the one that its head has had, else the line's, which ends with it."""
        head = self.calls.first()
        if head is None or self._had.pop(head, None) is None:
            self.turn = new_turn


class Turns:
    """Lines by priority and caller. The highest priority goes first; within it, the line whose turn is the earliest.

    A line that has had its turn, or is new, goes behind all others. So each caller that waits gets one call in each
    round, whatever the others have handed in, and one caller alone gets its calls in their order.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], Line] = {}
        self._rounds: dict[int, Ranking[int]] = {}
        self._next: tuple[int, int, int] | None = None  # until a line moves
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def next(self) -> tuple[int, int, int] | None:
        """Return whose turn it is, as ``(-priority, turn, caller)``: the least over several lanes goes first."""
        if self._next is None and self._rounds:
            priority = max(self._rounds)
            turn, caller = self._rounds[priority].first_entry()
            self._next = -priority, int(turn), caller
        return self._next

    def head(self, priority: int, caller: int) -> CallId | None:
        """Return the caller's oldest call at this priority."""
        line = self._lines.get((priority, caller))
        return None if line is None else line.calls.first()

    def has(self, call_id: CallId, priority: int, caller: int) -> bool:
        """Say whether the call waits in that line."""
        line = self._lines.get((priority, caller))
        return line is not None and call_id in line.calls

    def put(self, waiting: Waiting, new_turn: int) -> None:
        """Put a call in its line, where its order says. ``new_turn`` is for a new line: later than any given out."""
        key = waiting.call.priority, waiting.call.caller
        line = self._lines.get(key)
        was_at = None if line is None else line.rank()
        if line is None:
            line = self._lines[key] = Line(new_turn)
        line.put(waiting)
        self._count += 1
        if was_at != line.rank():
            self._rank(key, line)

    def drop(self, waiting: Waiting) -> None:
        """Take a call out of its line."""
        key = waiting.call.priority, waiting.call.caller
        line = self._lines[key]
        was_at = line.rank()
        line.drop(waiting.call.id)
        self._count -= 1
        if not line.calls or was_at != line.rank():
            self._rank(key, line)

    def spend(self, priority: int, caller: int, new_turn: int) -> None:
        """A call of the caller is about to go out in the turn of its line here."""
        key = priority, caller
        self._lines[key].spend(new_turn)
        self._rank(key, self._lines[key])

    def _rank(self, key: tuple[int, int], line: Line) -> None:
        """Put the line where it belongs in its round; a line, and a round, that has no call is forgotten."""
        priority, caller = key
        self._next = None
        if line.calls:
            if priority not in self._rounds:
                self._rounds[priority] = Ranking()
            self._rounds[priority].put(caller, line.rank())
            return
        del self._lines[key]
        self._rounds[priority].drop(caller)
        if not self._rounds[priority]:
            del self._rounds[priority]

    def check(self) -> None:
        """Raise AssertionError naming what does not add up."""
        assert self._count == sum(len(line.calls) for line in self._lines.values()), "a lane miscounts its calls"
        was_next, self._next = self._next, None
        assert was_next in (None, self.next()), "a lane is wrong about whose turn it is"
        listed = {(priority, caller) for priority, ranking in self._rounds.items() for caller in ranking}
        assert listed == self._lines.keys(), f"lines {listed ^ self._lines.keys()} take no turns, or are not there"
        for ranking in self._rounds.values():
            ranking.check()
        for line in self._lines.values():
            line.calls.check()
            assert line.calls, "an empty line was kept"
