"""Which waiting calls may run together, and from when on. Knows the windows and sizes, not who comes first in line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from dirtybus.batch import Batch
from dirtybus.pool.fit import LineFit
from dirtybus.pool.model import BatchRun, Call, CallId, Lane, Track, Waiting, Worker
from dirtybus.pool.ranking import Ranking

__all__ = ["Groups", "is_unwanted", "track_of"]


def track_of(waiting: Waiting) -> Track:
    """Return the line in which the call waits: that of its lane, or of its action where its calls run together.

    A call in which a worker has died runs alone from then on, so that it takes no others with it.
    """
    call = waiting.call
    if call.batch is None or waiting.crashes:
        return call.app, call.kind
    return call.app, call.kind, call.action


def is_unwanted(batch: BatchRun, worker: Worker, *, beside: CallId | None = None) -> bool:
    """Say whether nobody waits for any call of the batch that is still in the worker, ``beside`` one."""
    return all(worker.running[each].abandoned_at is not None for each in batch.members if each != beside)


class _Group:
    """The calls that wait for one action. ``ripe`` are those whose wait for company is over."""

    __slots__ = ("batch", "cost", "members", "ripe")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.members: set[CallId] = set()
        self.ripe: set[CallId] = set()
        self.cost = 0.0


class Groups:
    """The groups of waiting calls, and what was learned of their actions' run times.

    A group is open, so that a free worker takes from it, when it has a full batch or a ripe call.
    """

    def __init__(self) -> None:
        self._groups: dict[Track, _Group] = {}
        self._windows: Ranking[CallId] = Ranking()
        #: the group of each call whose window is not over
        self._held: dict[CallId, Track] = {}
        #: for each app and action
        self._fits: dict[tuple[str, str], LineFit] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    # --- who waits ---

    def add(self, track: Track, waiting: Waiting) -> None:
        """Book a call that waits with its like. One that comes back from a worker has waited for company already."""
        call = waiting.call
        assert call.batch is not None, "only calls that may run together wait in groups"
        group = self._groups.get(track)
        if group is None:
            group = self._groups[track] = _Group(call.batch)
        group.batch = call.batch  # a reload may have brought other terms
        group.members.add(call.id)
        group.cost += _cost(call)
        if waiting.is_fresh and call.ripe_at is not None:
            self._windows.put(call.id, call.ripe_at)
            self._held[call.id] = track
        else:
            group.ripe.add(call.id)

    def remove(self, track: Track, call: Call) -> None:
        """Book that the call does not wait any more."""
        group = self._groups[track]
        group.members.discard(call.id)
        group.ripe.discard(call.id)
        group.cost -= _cost(call)
        if self._held.pop(call.id, None) is not None:
            self._windows.drop(call.id)
        if not group.members:
            del self._groups[track]

    def clear(self) -> None:
        """Book that nobody waits any more."""
        self._groups.clear()
        self._held.clear()
        self._windows = Ranking()

    def holds(self, app: str) -> bool:
        """Say whether a call of the app waits in any group."""
        return any(track[0] == app for track in self._groups)

    def batches_of(self, track: Track) -> int:
        """Return how many batches the calls of a group make at least."""
        group = self._groups[track]
        return -(-len(group.members) // group.batch.max_size)

    # --- from when on ---

    def open_in(self, lane: Lane) -> Iterator[Track]:
        """Yield the open groups whose calls take slots of the lane."""
        for track in self._groups:
            if track[:2] == lane and self.is_open(track):
                yield track

    def is_open(self, track: Track) -> bool:
        """Say whether a free worker should take from the group."""
        group = self._groups.get(track)
        return group is not None and (bool(group.ripe) or self._is_full(track, group))

    def ripen(self, now: float) -> set[Lane]:
        """Book that the windows up to ``now`` are over, and return the lanes where this may open a group."""
        return self._open_up(self._windows.take_until(now))

    def hurry(self, app: str | None = None) -> set[Lane]:
        """Book that all windows, or those of one app, are over; as `ripen`."""
        hurried = [call_id for call_id, track in self._held.items() if app is None or track[0] == app]
        for call_id in hurried:
            self._windows.drop(call_id)
        return self._open_up(hurried)

    def next_ripe_at(self) -> float | None:
        """Return when the next window ends."""
        return self._windows.first_rank()

    # --- who goes together ---

    def begin(self, first: Call, now: float) -> BatchRun:
        """Begin a batch with its first call."""
        return BatchRun(first.id, now, size=1, cost=_cost(first))

    def admits(self, run: BatchRun, first: Call, call: Call) -> bool:
        """Say whether the call still fits into the batch that began with ``first``, and count it if so."""
        assert first.batch is not None
        most, most_cost = self._limits((first.app, first.action), first.batch)
        if run.size >= most or run.cost + _cost(call) > most_cost:
            return False
        run.size += 1
        run.cost += _cost(call)
        return True

    def learn(self, run: BatchRun, call: Call, now: float) -> None:
        """Take the time of a batch that ran to its end into account; ``call`` is one of its calls."""
        if call.batch is None or call.batch.target is None or not run.is_telling:
            return
        key = call.app, call.action
        if key not in self._fits:
            self._fits[key] = LineFit()
        self._fits[key].note(run.cost, now - run.started_at)

    def check(self, waiting: Iterable[Waiting]) -> None:
        """Raise AssertionError when the books are not those of the calls that wait."""
        self._windows.check()
        found: dict[Track, set[CallId]] = {}
        costs: dict[Track, float] = {}
        for each in waiting:
            track = track_of(each)
            if len(track) == 3:
                found.setdefault(track, set()).add(each.call.id)
                costs[track] = costs.get(track, 0.0) + _cost(each.call)
        booked = {track: group.members for track, group in self._groups.items()}
        assert booked == found, f"calls wait together: {found}, booked are {booked}"
        assert {track: group.cost for track, group in self._groups.items()} == costs, f"{costs} is booked otherwise"
        assert self._held.keys() == set(self._windows), "a call waits for company, and no moment ends it"
        for track, group in self._groups.items():
            held = {call_id for call_id in group.members if self._held.get(call_id) == track}
            assert held | group.ripe == group.members, f"calls of {track} neither are ripe nor will be"
            assert not held & group.ripe, f"calls of {track} are ripe and wait for it"

    def _open_up(self, call_ids: Iterable[CallId]) -> set[Lane]:
        lanes: set[Lane] = set()
        for call_id in call_ids:
            track = self._held.pop(call_id)
            self._groups[track].ripe.add(call_id)
            lanes.add((track[0], track[1]))
        return lanes

    def _is_full(self, track: Track, group: _Group) -> bool:
        most, most_cost = self._limits((track[0], _action(track)), group.batch)
        return len(group.members) >= most or group.cost >= most_cost

    def _limits(self, key: tuple[str, str], batch: Batch) -> tuple[int, float]:
        """Return how many calls, and what cost, a batch has at most. One call always goes."""
        most, most_cost = batch.max_size, batch.max_cost or math.inf
        if batch.target is None:
            return most, most_cost
        fit = self._fits.get(key)
        quick = 0.0 if fit is None else fit.largest_within(batch.target - batch.max_wait)
        if batch.cost == "bytes":
            return most, min(most_cost, quick)
        return max(1, min(most, int(quick))), most_cost


def _cost(call: Call) -> float:
    return float(call.size) if call.batch is not None and call.batch.cost == "bytes" else 1.0


def _action(track: Track) -> str:
    return track[2] if len(track) == 3 else ""
