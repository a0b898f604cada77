"""The calls that wait for a slot. Knows which call is next, not which worker takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from dirtybus.config import DirtyConfig
from dirtybus.pool.batching import Groups, track_of
from dirtybus.pool.bounds import Bounds
from dirtybus.pool.model import ActionKind, BatchRun, Call, CallId, Lane, Track, Waiting
from dirtybus.pool.turns import Turns

__all__ = ["CallQueue", "lane_of"]


def lane_of(call: Call) -> Lane:
    """Return the line in which the call waits."""
    return call.app, call.kind


class CallQueue:
    """The highest priority first, callers by turns, each caller's own calls first come, first served.

    So it is in each lane, and over all the lanes that a worker can take from. A call that comes back from a worker
    stands where it stood: before all of its caller that were accepted after it, in the turn that it has had. Calls that
    run together stand in a line of their action beside the lane, which counts as soon as their group is open.

    Args:
        config: how much may wait; see `Bounds`.
    """

    def __init__(self, config: DirtyConfig) -> None:
        self.bounds = Bounds(config)
        self._waiting: dict[CallId, Waiting] = {}
        self._lanes: dict[Track, Turns] = {}
        self.groups = Groups()
        #: orders and turns are drawn from one sequence: the turn of a new line is the order of its first call
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def __contains__(self, call_id: CallId) -> bool:
        return call_id in self._waiting

    def lengths(self) -> dict[str, int]:
        """Return how many calls wait for each app that has any."""
        found: dict[str, int] = {}
        for track, turns in self._lanes.items():
            if turns:
                found[track[0]] = found.get(track[0], 0) + len(turns)
        return found

    def lane_lengths(self) -> dict[Lane, int]:
        """Return how many slots the calls want that wait in each lane that has any: a full batch wants one."""
        found: dict[Lane, int] = {}
        for track, turns in self._lanes.items():
            if turns:
                wanted = len(turns) if len(track) == 2 else self.groups.batches_of(track)
                found[track[0], track[1]] = found.get((track[0], track[1]), 0) + wanted
        return found

    def lanes(self) -> list[Lane]:
        """Return the lanes in which any call waits for a worker, and not just for company."""
        return list(
            {(track[0], track[1]): None for track, turns in self._lanes.items() if turns and self._is_open(track)}
        )

    def is_empty(self, lane: Lane) -> bool:
        """Say whether nobody waits in the lane for a worker; some may wait for company."""
        return not self._lanes.get(lane) and not (self.groups and any(self.groups.open_in(lane)))

    def has_work_for(self, apps: Iterable[str]) -> bool:
        """Say whether a call for any of these apps waits."""
        if not self._waiting:
            return False
        return any(self._lanes.get((app, kind)) for app in apps for kind in ActionKind) or any(
            self.groups.holds(app) for app in apps
        )

    def number(self, call: Call) -> Waiting:
        """Give a new call its place after all that came before; it is not in the queue yet."""
        return Waiting(call, next(self._numbers))

    def put(self, waiting: Waiting) -> None:
        """Put a call where its order and its turn say."""
        track = track_of(waiting)
        if track not in self._lanes:
            self._lanes[track] = Turns()
        self._lanes[track].put(waiting, waiting.order if waiting.is_fresh else next(self._numbers))
        self._waiting[waiting.call.id] = waiting
        if len(track) == 3:
            self.groups.add(track, waiting)
        if waiting.is_fresh:
            self.bounds.add(waiting)

    def remove(self, call_id: CallId) -> Waiting | None:
        """Take a call out, wherever it stands; None when it does not wait."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is None:
            return None
        track = track_of(waiting)
        self._lanes[track].drop(waiting)
        if len(track) == 3:
            self.groups.remove(track, waiting.call)
        if waiting.is_fresh:
            self.bounds.remove(waiting)
        return waiting

    def next_lane(self, lanes: Iterable[Lane]) -> Lane | None:
        """Return the lane of the call that is next among these lanes; None when none waits there."""
        tracks = self._tracks(lanes)
        holder = self._holder_of_the_turn(tracks)
        if holder is None:
            return None
        app, kind, *_ = self._oldest_of_its_caller(holder, tracks)
        return app, kind

    def take(self, lanes: Iterable[Lane]) -> Waiting | None:
        """Take the call that is next among these lanes, with the turn in which it goes; None when none waits there.

        The turn is that of one lane; it is spent on the oldest call that its caller has in any of them, so that one
        caller's calls leave in their order.
        """
        tracks = self._tracks(lanes)
        holder = self._holder_of_the_turn(tracks)
        return None if holder is None else self._pull(holder, self._oldest_of_its_caller(holder, tracks))

    def take_fellows(self, first: Waiting, run: BatchRun) -> Iterator[Waiting]:
        """Take the calls that go together with one that was taken, those first that are next in their line."""
        track = track_of(first)
        while len(track) == 3 and self._lanes.get(track):
            turn = self._next(track)
            head = self._lanes[track].head(-turn[0], turn[2])
            assert head is not None
            if not self.groups.admits(run, first.call, self._waiting[head].call):
                return
            yield self._pull(track, track)

    def _pull(self, holder: Track, source: Track) -> Waiting:
        """Take the next call of ``source``, in the turn that its caller has in ``holder``."""
        turns, first = self._lanes[holder], self._next(holder)
        call_id = self._lanes[source].head(-first[0], first[2])
        assert call_id is not None
        turns.spend(-first[0], first[2], next(self._numbers))
        waiting = self.remove(call_id)
        assert waiting is not None
        # not `replace`, which takes twice as long, for each call that waits
        return Waiting(waiting.call, waiting.order, waiting.attempt, waiting.crashes, first[1], waiting.bounces)

    def take_all(self) -> list[Waiting]:
        """Empty the queue and return the calls in the order of their acceptance."""
        taken = sorted(self._waiting.values(), key=lambda waiting: waiting.order)
        self._waiting.clear()
        self._lanes.clear()
        self.groups.clear()
        self.bounds.clear()
        return taken

    def check(self) -> None:
        """Raise AssertionError naming what does not add up."""
        for turns in self._lanes.values():
            turns.check()
        for waiting in self:
            lane, call = self._lanes[track_of(waiting)], waiting.call
            assert lane.has(call.id, call.priority, call.caller), f"call {call.id} waits outside of its line"
        in_lanes = sum(len(turns) for turns in self._lanes.values())
        assert in_lanes == len(self), f"{in_lanes} calls in lanes, {len(self)} in the index"
        self.bounds.check(waiting for waiting in self if waiting.is_fresh)
        self.groups.check(self)

    def _is_open(self, track: Track) -> bool:
        return len(track) == 2 or self.groups.is_open(track)

    def _tracks(self, lanes: Iterable[Lane]) -> tuple[Track, ...]:
        """Return the lines that a worker with room in these lanes may take from."""
        if not self.groups:
            return tuple(lanes)
        return tuple(track for lane in lanes for track in (lane, *self.groups.open_in(lane)))

    def _next(self, lane: Track) -> tuple[int, int, int]:
        found = self._lanes[lane].next()
        assert found is not None, f"nobody waits in {lane}"
        return found

    def _holder_of_the_turn(self, lanes: Iterable[Track]) -> Track | None:
        """Return the lane in which it is the turn of the one who comes first over all these lanes."""
        waiting = [lane for lane in lanes if self._lanes.get(lane)]
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        return min(waiting, key=self._next)

    def _oldest_of_its_caller(self, holder: Track, lanes: tuple[Track, ...]) -> Track:
        """Return the lane with the oldest call of the one whose turn it is, at the same priority."""
        if len(lanes) == 1:
            return holder
        priority, _, caller = self._next(holder)
        oldest, found = None, holder
        for lane in lanes:
            turns = self._lanes.get(lane)
            head = turns.head(-priority, caller) if turns else None
            if head is not None and (oldest is None or self._waiting[head].order < oldest):
                oldest, found = self._waiting[head].order, lane
        return found
