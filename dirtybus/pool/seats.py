"""The places for workers: how many, what each is for, which are vacant and from when they may be filled.

Never learns what a worker is doing; who resizes says which seats are cheapest to give up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dirtybus.pool import placement
from dirtybus.pool.layout import Layout
from dirtybus.pool.model import WorkerId
from dirtybus.pool.placement import Apps
from dirtybus.pool.ranking import Ranking

__all__ = ["Seat", "Seats"]


@dataclass(slots=True)
class Seat:
    """A place for one worker, and for its heir while that boots. A surplus one is given up when both are gone.

    ``deaths`` counts those in a row; ``spawn_at`` is the moment from which the next worker or heir may be started.
    """

    index: int
    apps: Apps
    worker: WorkerId | None = None
    heir: WorkerId | None = None
    deaths: int = 0
    spawn_at: float = -math.inf
    is_surplus: bool = False

    @property
    def is_vacant(self) -> bool:
        """Whether nobody holds it or is about to."""
        return self.worker is None and self.heir is None


class Seats:
    """All seats by index. A seat that holds a limited app is never given up: its app would fall below its number.

    A vacant seat that is for some app either waits for its moment, or rests: it was due, and could not be filled yet.

    Raises:
        ConfigError: the apps do not fit on the seats.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._seats = {index: Seat(index, apps) for index, apps in enumerate(layout.plan())}
        self._vacant: Ranking[int] = Ranking()
        self._resting: dict[int, Seat] = {}
        #: deaths in a row, and the moment from which a next worker may be tried, of seats given up after a death
        self._mourned: dict[Apps, tuple[int, float]] = {}
        for seat in self:
            self._open(seat)

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats.values())

    def __getitem__(self, index: int) -> Seat:
        return self._seats[index]

    @property
    def size(self) -> int:
        """How many seats are meant to stay."""
        return sum(1 for seat in self if not seat.is_surplus)

    @property
    def smallest_size(self) -> int:
        """How few seats there may be."""
        if not self.layout.is_elastic:
            return placement.smallest_size((seat.apps for seat in self), self.layout.unlimited)
        limited = 0 if self.layout.is_dynamic else sum(1 for seat in self if not self._may_go(seat.apps))
        if not (self.layout.is_dynamic or self.layout.unlimited):
            return limited
        return max(self.layout.least, self.layout.fewest, limited)

    def staying(self) -> list[Seat]:
        """Return the seats that are meant to stay, by index."""
        return sorted((seat for seat in self if not seat.is_surplus), key=lambda seat: seat.index)

    # --- who sits where ---

    def occupy(self, seat: Seat, worker: WorkerId, *, as_heir: bool = False) -> None:
        """Book the worker on the seat, or as the heir of whoever holds it."""
        self._close(seat)
        if as_heir:
            seat.heir = worker
        else:
            seat.worker = worker

    def inherit(self, seat: Seat) -> WorkerId | None:
        """Let the heir hold the seat; returns who held it before."""
        before, seat.worker, seat.heir = seat.worker, seat.heir, None
        return before

    def vacate(self, seat: Seat, worker: WorkerId, spawn_at: float) -> None:
        """Book the end of the holder or of the heir: the next may be started from ``spawn_at`` on."""
        if seat.worker == worker:
            seat.worker = None
        else:
            seat.heir = None
        seat.spawn_at = spawn_at
        if not seat.is_vacant:
            return
        if seat.is_surplus:
            self._remove(seat)
        else:
            self._open(seat)

    # --- vacancies ---

    def take_due(self, now: float) -> list[Seat]:
        """Take out the vacant seats whose moment has come, rested ones too; the caller fills them or lets them rest."""
        rested, self._resting = list(self._resting.values()), {}
        return [*rested, *(self._seats[index] for index in self._vacant.take_until(now))]

    def rest(self, seat: Seat) -> None:
        """Let a due seat wait for a fact rather than for time."""
        self._resting[seat.index] = seat

    def vacant_until(self, app: str) -> float:
        """Return when the next worker with ``app`` may be started; minus infinity when one lives, infinity: never."""
        moments = [seat.spawn_at if seat.is_vacant else -math.inf for seat in self if app in seat.apps]
        if not moments and self.layout.is_elastic:  # it gets a seat when it is asked for
            return self._mourned.get((app,), (0, -math.inf))[1]
        return min(moments, default=math.inf)

    def next_spawn_at(self) -> float | None:
        """Return the next moment at which a vacant seat may be filled; None when none waits for that."""
        return self._vacant.first_rank()

    # --- size and plan ---

    def grow(self, size: int) -> None:
        """Keep surplus seats again, then add seats with the unlimited apps, until ``size`` stay."""
        for seat in self:
            if seat.is_surplus and self.size < size:
                seat.is_surplus = False
                seat.apps = seat.apps or self.layout.unlimited
        while self.size < size:
            self.add(self.layout.unlimited)

    def shrink(self, size: int, cost: Callable[[Seat], tuple[int, ...]]) -> list[Seat]:
        """Give up the cheapest seats until ``size`` stay. Return those that are held; the others are gone at once."""
        able = [seat for seat in self if not seat.is_surplus and self._may_go(seat.apps)]
        return self.give_up(sorted(able, key=cost)[: max(0, self.size - size)])

    def replan(self, layout: Layout, plan: Sequence[Apps]) -> None:
        """Let the seats be for what ``plan`` says, in the order of their indices; missing ones are added.

        Seats beyond the plan stay for now, for no app: `trim` gives them up, `keep` does not.
        """
        self.layout = layout
        self._mourned.clear()
        staying = self.staying()
        for seat in self:
            seat.apps = ()
        for seat, apps in zip(staying, plan, strict=False):
            seat.apps = apps
        for seat in staying:
            if seat.is_vacant:
                self._close(seat)
                self._open(seat)
        for apps in plan[len(staying) :]:
            self.add(apps)

    def trim(self, size: int) -> list[Seat]:
        """Give up the seats beyond the plan until ``size`` stay. Return those that are held."""
        return self.give_up(self.staying()[size:])

    def keep(self, size: int) -> None:
        """Let the seats beyond a plan of so many stay after all, for the apps without a limit, as added ones are."""
        for seat in self.staying()[size:]:
            seat.apps = self.layout.unlimited
            if seat.is_vacant:
                self._open(seat)

    def add(self, apps: Apps) -> None:
        """Add a vacant seat for these apps; where seats come and go by themselves, with the delay of one given up."""
        index = next(i for i in range(len(self._seats) + 1) if i not in self._seats)
        seat = self._seats[index] = Seat(index, apps)
        seat.deaths, seat.spawn_at = self._mourned.pop(apps, (0, -math.inf))
        self._open(seat)

    def give_up(self, leaving: Iterable[Seat]) -> list[Seat]:
        """Give up these seats. Return those that are held; the others are gone at once."""
        held = []
        for seat in leaving:
            seat.is_surplus = True
            if seat.is_vacant:
                self._close(seat)
                self._remove(seat)
            else:
                held.append(seat)
        return held

    def _remove(self, seat: Seat) -> None:
        del self._seats[seat.index]
        _, until = self._mourned.get(seat.apps, (0, -math.inf))
        if seat.deaths and self.layout.is_elastic and seat.spawn_at >= until:
            self._mourned[seat.apps] = seat.deaths, seat.spawn_at

    def check(self, workers: Collection[WorkerId]) -> None:
        """Raise AssertionError naming what does not add up; ``workers`` are those that hold a seat or are an heir."""
        self._vacant.check()
        seated = [worker for seat in self for worker in (seat.worker, seat.heir) if worker is not None]
        assert sorted(seated) == sorted(workers), f"workers {sorted(workers)} live, {sorted(seated)} are seated"
        for index, seat in self._seats.items():
            assert index == seat.index, f"seat {seat.index} is filed under {index}"
            waits = (index in self._vacant) + (index in self._resting)
            assert waits == (seat.is_vacant and bool(seat.apps)), f"seat {index} waits {waits} times for a worker"
            assert not (seat.is_vacant and seat.is_surplus), f"surplus seat {index} stays without a worker"
        assert self._resting.keys() <= self._seats.keys(), "a seat rests that is gone"
        if self.layout.is_dynamic:
            for app, many in self.layout.many.items():
                held = sum(1 for seat in self.staying() if app in seat.apps)
                assert held <= many, f"{held} seats hold {app}, which may have {many}"
            return
        for spec in self.layout.specs:
            held = sum(1 for seat in self if spec.path in seat.apps)
            assert spec.workers is None or held == spec.workers, f"{held} seats hold {spec}"
            assert held or not self._seats, f"no seat holds {spec}"

    def _open(self, seat: Seat) -> None:
        if seat.apps:
            self._vacant.put(seat.index, seat.spawn_at)

    def _close(self, seat: Seat) -> None:
        self._vacant.drop(seat.index)
        self._resting.pop(seat.index, None)

    def _may_go(self, apps: Apps) -> bool:
        return all(app in self.layout.unlimited for app in apps)
