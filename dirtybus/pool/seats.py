"""The places for workers: how many, what each holds, which are vacant and from when they may be filled.

Never learns what a worker is doing; who resizes says which seats are cheapest to give up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from dirtybus.config import AppSpec
from dirtybus.pool import placement
from dirtybus.pool.model import WorkerId
from dirtybus.pool.placement import Apps
from dirtybus.pool.ranking import Ranking

__all__ = ["Seat", "Seats"]


@dataclass(slots=True)
class Seat:
    """A place for one worker. A surplus one is given up as soon as its worker is gone.

    ``deaths`` counts those in a row; ``spawn_at`` is the moment from which the next worker may be started.
    """

    index: int
    apps: Apps
    worker: WorkerId | None = None
    deaths: int = 0
    spawn_at: float = -math.inf
    is_surplus: bool = False


class Seats:
    """All seats by index. A seat that holds a limited app is never given up: its app would fall below its number.

    Raises:
        ConfigError: the specs do not fit on ``size`` seats.
    """

    def __init__(self, specs: Sequence[AppSpec], size: int) -> None:
        self._specs = tuple(specs)
        self._unlimited = placement.unlimited_apps(specs)
        self._seats = {index: Seat(index, apps) for index, apps in enumerate(placement.plan(specs, size))}
        self._vacant: Ranking[int] = Ranking()
        for seat in self:
            self.vacate(seat, -math.inf)

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
        return placement.smallest_size((seat.apps for seat in self), self._unlimited)

    def occupy(self, seat: Seat, worker: WorkerId) -> None:
        """Book the worker on the seat."""
        self._vacant.drop(seat.index)
        seat.worker = worker

    def vacate(self, seat: Seat, spawn_at: float) -> None:
        """Book the worker's end: the seat waits for the next one from ``spawn_at`` on, or is gone if surplus."""
        seat.worker = None
        seat.spawn_at = spawn_at
        if seat.is_surplus:
            del self._seats[seat.index]
        elif seat.apps:
            self._vacant.put(seat.index, spawn_at)

    def take_due(self, now: float) -> list[Seat]:
        """Take out the vacant seats whose moment has come; the caller fills them."""
        return [self._seats[index] for index in self._vacant.take_until(now)]

    def vacant_until(self, app: str) -> float:
        """Return when the next worker with ``app`` may be started; minus infinity when one lives, infinity: never."""
        moments = [seat.spawn_at if seat.worker is None else -math.inf for seat in self if app in seat.apps]
        return min(moments, default=math.inf)

    def next_spawn_at(self) -> float | None:
        """Return the next moment at which a vacant seat may be filled; None when none waits for that."""
        return self._vacant.first_rank()

    def keep_vacant_unless(self, is_needed: Callable[[Apps], bool]) -> None:
        """Let only those vacant seats wait for a worker whose apps are needed; the others may be asked again."""
        for seat in self:
            if seat.worker is not None:
                continue
            if is_needed(seat.apps):
                self._vacant.put(seat.index, seat.spawn_at)
            else:
                self._vacant.drop(seat.index)

    def grow(self, size: int) -> None:
        """Keep surplus seats again, then add seats with the unlimited apps, until ``size`` stay."""
        for seat in self:
            if seat.is_surplus and self.size < size:
                seat.is_surplus = False
        while self.size < size:
            index = next(i for i in range(len(self._seats) + 1) if i not in self._seats)
            seat = self._seats[index] = Seat(index, self._unlimited)
            self.vacate(seat, -math.inf)

    def shrink(self, size: int, cost: Callable[[Seat], tuple[int, ...]]) -> list[Seat]:
        """Give up the cheapest seats until ``size`` stay. Return those with a worker; the others are gone at once."""
        able = [seat for seat in self if not seat.is_surplus and self._may_go(seat.apps)]
        leaving = sorted(able, key=cost)[: max(0, self.size - size)]
        for seat in leaving:
            seat.is_surplus = True
            if seat.worker is None:
                self._vacant.drop(seat.index)
                del self._seats[seat.index]
        return [seat for seat in leaving if seat.worker is not None]

    def check(self, workers: Collection[WorkerId], is_needed: Callable[[Apps], bool]) -> None:
        """Raise AssertionError naming what does not add up."""
        self._vacant.check()
        seated = [seat.worker for seat in self if seat.worker is not None]
        assert sorted(seated) == sorted(workers), f"workers {sorted(workers)} live, {sorted(seated)} are seated"
        for index, seat in self._seats.items():
            assert index == seat.index, f"seat {seat.index} is filed under {index}"
            assert seat.worker is None or index not in self._vacant, f"seat {index} is occupied and vacant at once"
            assert seat.worker is not None or not seat.is_surplus, f"surplus seat {index} stays without a worker"
            if seat.worker is None and is_needed(seat.apps):
                assert index in self._vacant, f"seat {index} is needed, and waits for no worker"
        for spec in self._specs:
            held = sum(1 for seat in self if spec.path in seat.apps)
            assert spec.workers is None or held == spec.workers, f"{held} seats hold {spec}"
            assert held or not self._seats, f"no seat holds {spec}"

    def _may_go(self, apps: Apps) -> bool:
        return all(app in self._unlimited for app in apps)
