"""The calls that wait for a slot. Knows which call is next, not which worker takes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import count

from dirtybus.pool.model import ActionKind, Call, CallId, Lane, Waiting
from dirtybus.pool.ranking import Ranking

__all__ = ["CallQueue", "lane_of"]


def lane_of(call: Call) -> Lane:
    """Return the line in which the call waits."""
    return call.app, call.kind


class CallQueue:
    """First come, first served, in each lane and over all the lanes that a worker can take from.

    A call that comes back after a crash stands where it stood: before all that were accepted after it. It does not
    count towards the bound, since it was accepted before.

    Args:
        max_queued: how many calls that have not run yet may wait.
    """

    def __init__(self, max_queued: int) -> None:
        self._max_queued = max_queued
        self._waiting: dict[CallId, Waiting] = {}
        self._lanes: dict[Lane, Ranking[CallId]] = {}
        self._first_runs = 0
        self._next_order = count(1)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def __contains__(self, call_id: CallId) -> bool:
        return call_id in self._waiting

    @property
    def is_full(self) -> bool:
        return self._first_runs >= self._max_queued

    def lengths(self) -> dict[str, int]:
        """Return how many calls wait for each app that has any."""
        found: dict[str, int] = {}
        for (app, _), lane in self._lanes.items():
            if lane:
                found[app] = found.get(app, 0) + len(lane)
        return found

    def lanes(self) -> list[Lane]:
        """Return the lanes in which any call waits."""
        return [lane for lane, ranking in self._lanes.items() if ranking]

    def is_empty(self, lane: Lane) -> bool:
        return not self._lanes.get(lane)

    def has_work_for(self, apps: Iterable[str]) -> bool:
        """Say whether a call for any of these apps waits."""
        return bool(self._waiting) and any(not self.is_empty((app, kind)) for app in apps for kind in ActionKind)

    def head_order(self, lane: Lane) -> float:
        """Return the place of the lane's next call among all calls; infinite when none waits."""
        ranking = self._lanes.get(lane)
        first = ranking.first_rank() if ranking else None
        return math.inf if first is None else first

    def number(self, call: Call) -> Waiting:
        """Give a new call its place after all that came before; it is not in the queue yet."""
        return Waiting(call, next(self._next_order))

    def put(self, waiting: Waiting) -> None:
        """Put a call where its order says."""
        lane = lane_of(waiting.call)
        if lane not in self._lanes:
            self._lanes[lane] = Ranking()
        self._lanes[lane].put(waiting.call.id, waiting.order)
        self._waiting[waiting.call.id] = waiting
        self._first_runs += waiting.attempt == 1

    def remove(self, call_id: CallId) -> Waiting | None:
        """Take a call out, wherever it stands; None when it does not wait."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is None:
            return None
        self._lanes[lane_of(waiting.call)].drop(call_id)
        self._first_runs -= waiting.attempt == 1
        return waiting

    def take(self, lanes: Iterable[Lane]) -> Waiting | None:
        """Take the call that was accepted first among these lanes; None when none waits there."""
        first, first_order = None, math.inf
        for lane in lanes:
            if (order := self.head_order(lane)) < first_order:
                first, first_order = self._lanes[lane], order
        call_id = None if first is None else first.take_first()
        if call_id is None:
            return None
        waiting = self._waiting.pop(call_id)
        self._first_runs -= waiting.attempt == 1
        return waiting

    def take_all(self) -> list[Waiting]:
        """Empty the queue and return the calls in the order of their acceptance."""
        taken = sorted(self._waiting.values(), key=lambda waiting: waiting.order)
        self._waiting.clear()
        self._lanes.clear()
        self._first_runs = 0
        return taken

    def check(self) -> None:
        """Raise AssertionError naming what does not add up."""
        for ranking in self._lanes.values():
            ranking.check()
        astray = [waiting.call.id for waiting in self if waiting.call.id not in self._lanes[lane_of(waiting.call)]]
        assert not astray, f"calls {astray} wait outside of their lanes"
        in_lanes = sum(len(ranking) for ranking in self._lanes.values())
        assert in_lanes == len(self), f"{in_lanes} calls in lanes, {len(self)} in the index"
        first_runs = sum(1 for waiting in self if waiting.attempt == 1)
        assert first_runs == self._first_runs, f"{first_runs} calls wait for a first run, {self._first_runs} counted"
