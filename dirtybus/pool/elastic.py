"""The size of an elastic pool: who is added for the calls that wait, who makes room, and who leaves when idle.

It changes seats; who sits there is started and told to leave by others. The algorithm is Passenger's ApplicationPool
(spawn on demand, idle first, room made by the idle instance of the least used app, idle ones shut down), with a
bounded drain and in the order of the one shared queue.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dirtybus.config import DirtyConfig
from dirtybus.pool.layout import Layout
from dirtybus.pool.model import ActionKind, Lane, Phase, Worker
from dirtybus.pool.placement import Apps
from dirtybus.pool.queue import CallQueue
from dirtybus.pool.roster import Roster
from dirtybus.pool.seats import Seat
from dirtybus.pool.usage import Usage

__all__ = ["Elastic"]

#: where all places are taken, an app that has a worker gets another only of one that was idle for so long
_STEAL_AFTER_S = 1.0


class _Claim(enum.Enum):
    """Why an app is to have one more worker; it says who must make room where all places are taken.

    ``MORE``: one that was idle for a while; ``FIRST``: any idle one, or one whose next call would come later;
    ``OWED``: anybody.
    """

    MORE = "more"
    FIRST = "first"
    OWED = "owed"


@dataclass(slots=True)
class _Hunger:
    """Calls of an app wait since ``since``, or since it was last given a worker.

    ``coming`` is how many of each kind those workers can take that are about to come, ``is_short`` whether more wait;
    ``may_grow`` says that one more worker is possible, and ``is_first`` that it would be the only one.
    """

    since: float
    coming: dict[ActionKind, int] = field(default_factory=dict)
    is_short: bool = False
    may_grow: bool = True
    is_first: bool = False


class Elastic:
    """Aims at enough workers for the calls that wait, between the least and the most of the layout.

    Args:
        is_broken: whether an app's circuit is open: nobody is started for it here.
    """

    def __init__(
        self, config: DirtyConfig, layout: Layout, roster: Roster, queue: CallQueue, is_broken: Callable[[str], bool]
    ) -> None:
        self.layout = layout
        self._idle_s = config.max_idle_time_s or math.inf
        self._patience_s = config.scale_up_after_s
        self._async_calls = config.async_concurrency
        self._roster = roster
        self._queue = queue
        self._is_broken = is_broken
        self._asked = 0
        self._asked_by_app: dict[str, int] = {}
        self._hungry: dict[str, _Hunger] = {}
        self._held: Counter[str] = Counter()
        self.usage = Usage()
        #: when time alone next makes something due
        self.due_at = math.inf

    # --- what was asked for ---

    @property
    def floor(self) -> int:
        """How many workers there are although nobody needs them."""
        smallest = self._roster.seats.smallest_size
        if not (self.layout.is_dynamic or self.layout.unlimited):
            return smallest  # no app would be on any other
        return min(max(smallest, self._asked), self.layout.most)

    def why_not(self, size: int, app: str | None = None) -> str | None:
        """Return the sentence that forbids ``size`` workers, or instances of the app; None when it is allowed."""
        least, most = self._roster.seats.smallest_size, self.layout.most
        if app is not None:
            asked = self._moved(size, app)
            return None if asked == size else f"{app} may have {asked} workers here, not {size}"
        return None if least <= size <= most else f"the pool has from {least} to {most} workers, not {size}"

    def aim(self, size: int, app: str | None = None) -> None:
        """Have ``size`` workers now, or instances of the app: idle ones go first, others when their calls are done.

        It is the least number from now on. Numbers beyond the limits are moved to them. For one app it has a meaning
        where placement is dynamic only.
        """
        if app is None:
            self._asked = size
            self._shrink_to(self.floor)
        elif self.layout.is_dynamic and app in self.layout.many:
            asked = self._asked_by_app[app] = self._moved(size, app)
            self._count()
            excess = self._held[app] - asked
            able = sorted((seat for seat in self._staying() if seat.apps == (app,)), key=self._roster.cost_of)
            self._give_up(able[: max(0, excess)])

    def _moved(self, size: int, app: str) -> int:
        """Return the number of instances nearest to ``size`` that the app may have."""
        others = sum(few for other, few in self.layout.few.items() if other != app)
        most = min(self.layout.many.get(app, 0), self.layout.most - others)
        return max(min(size, most), self.layout.few.get(app, 0))

    def bound(self, least: int, most: int) -> None:
        """Go by other limits from now on; more workers than the new most are let go, idle ones first."""
        self.layout = self._roster.seats.layout = self.layout.bounded(least, most)
        self._shrink_to(self.layout.most)

    # --- time and calls ---

    def note_use(self, worker: Worker, app: str, now: float) -> float:
        """Book that a call of the app ended in the worker; returns when to look again."""
        self.usage.note(app, now)
        if worker.running:
            return math.inf
        worker.idle_since = now
        is_wanted = bool(self._hungry) and self.layout.is_dynamic
        return now + min(self._idle_s, _STEAL_AFTER_S if is_wanted else math.inf)

    def is_restless(self, now: float) -> bool:
        """Say whether calls wait for which `settle` has something to decide now. Cheap, for every step."""
        if not len(self._queue):
            return bool(self._hungry)
        waiting = self._queue.lane_lengths()
        if {app for app, _ in waiting} != self._hungry.keys():
            return True
        for (app, kind), count in waiting.items():
            hunger = self._hungry[app]
            if hunger.may_grow and count > hunger.coming[kind]:
                is_due = hunger.is_first or now >= hunger.since + self._patience_s
                if is_due or not hunger.is_short:
                    return True
        return False

    def settle(self, now: float, *, may_shrink: bool = True) -> None:
        """Add the workers that are missing, then let those go that are idle for too long.

        While others replace the workers, ``may_shrink`` is False, and only apps without any get one.
        """
        self._count()
        self.due_at = math.inf
        if may_shrink:
            self._give_up_broken()
            self._restore(now)
        self._grow(now, only_first=not may_shrink)
        if may_shrink:
            self._shrink(now)

    def seat_for(self, app: str, now: float) -> bool:
        """Make a seat for an app that is to be tried again; False when there is no place for it."""
        self._count()
        if not self.layout.is_dynamic or app not in self.layout.many or not self._make_room(app, now, _Claim.FIRST):
            return False
        self._add(app)
        return True

    # --- more ---

    def _restore(self, now: float) -> None:
        """Bring back the fewest instances of each app, then those that were asked for, then the least of all."""
        if not self.layout.is_dynamic:
            if self._roster.seats.size < self.floor:
                self._roster.seats.grow(self.floor)
            return
        numbers = [(few, _Claim.OWED, app) for app, few in self.layout.few.items()]
        numbers += [(asked, _Claim.MORE, app) for app, asked in self._asked_by_app.items()]
        for number, claim, app in numbers:
            while self._held[app] < number and not self._is_broken(app) and self._make_room(app, now, claim):
                self._add(app)
        whole = [app for app in self.layout.many if not self._is_broken(app)]
        while self._roster.seats.size < self.floor and (most_wanted := self.layout.next_app(self._held, whole)):
            self._add(most_wanted)

    def _grow(self, now: float, *, only_first: bool) -> None:
        waiting = self._queue.lane_lengths()
        apps = {app for app, _ in waiting}
        self._hungry = {app: hunger for app, hunger in self._hungry.items() if app in apps}
        for app, _ in waiting:
            self._hungry.setdefault(app, _Hunger(now))
        for app, hunger in sorted(self._hungry.items(), key=lambda item: item[1].since):
            self._look_at(app, hunger, waiting)
            while hunger.may_grow and hunger.is_short and (hunger.is_first or not only_first):
                at = -math.inf if hunger.is_first else hunger.since + self._patience_s
                if now < at:
                    self.due_at = min(self.due_at, at)
                    break
                if not self._make_room(app, now, _Claim.FIRST if hunger.is_first else _Claim.MORE):
                    hunger.may_grow = hunger.is_first  # a worker that ends a call may make room for it
                    break
                self._add(app)
                hunger.since = now
                self._look_at(app, hunger, waiting)

    def _look_at(self, app: str, hunger: _Hunger, waiting: Mapping[Lane, int]) -> None:
        coming = [seat for seat in self._staying() if app in seat.apps and not self._is_ready(seat)]
        hunger.is_first = not self._held[app]
        hunger.may_grow = self._may_have_more(app)
        hunger.coming = {
            ActionKind.SYNC: sum(self._roster.threads_for(seat.apps, app) for seat in coming),
            ActionKind.ASYNC: len(coming) * self._async_calls,
        }
        hunger.is_short = any(waiting.get((app, kind), 0) > hunger.coming[kind] for kind in ActionKind)

    def _may_have_more(self, app: str) -> bool:
        if self._is_broken(app):
            return False
        if self.layout.is_dynamic:
            return self._held[app] < self.layout.many.get(app, 0)
        return app in self.layout.unlimited and self._roster.seats.size < self.layout.most

    # --- room ---

    def _make_room(self, app: str, now: float, claim: _Claim) -> bool:
        """Say whether one more seat may be added, after somebody made room for it where all are taken."""
        if self._roster.seats.size < self.layout.most:
            return True
        if not self.layout.is_dynamic:
            return False
        victim = self._idle_victim(app, now, claim) or self._next_to_yield(app, now, claim)
        if victim is None:
            return False
        self._give_up([victim])
        return True

    def _victims(self, app: str, claim: _Claim) -> Iterator[Seat]:
        """Yield the seats of other apps that have more than their fewest, or than was asked for."""
        for seat in self._staying():
            is_spare = self._is_spare if claim is _Claim.MORE else self._is_beyond_few
            if seat.apps and app not in seat.apps and is_spare(seat):
                yield seat

    def _idle_victim(self, app: str, now: float, claim: _Claim) -> Seat | None:
        """Return the seat of the least used app that was idle longest, or whose worker nobody waits for."""
        able = []
        for seat in self._victims(app, claim):
            idle_since = self._unused_since(seat, now)
            at = idle_since + _STEAL_AFTER_S if claim is _Claim.MORE else idle_since
            if at <= now:
                able.append((self.usage.of(seat.apps[0], now), idle_since, -seat.index))
            elif at < math.inf:
                self.due_at = min(self.due_at, at)
        return self._roster.seats[-min(able)[2]] if able else None

    def _unused_since(self, seat: Seat, now: float) -> float:
        """Return since when nobody needs the seat; infinite while somebody does."""
        worker = self._roster.holder(seat)
        if seat.heir is not None or (worker is not None and worker.running):
            return math.inf
        if worker is not None and worker.phase is Phase.READY:
            return worker.idle_since
        if self._queue.has_work_for(seat.apps):
            return math.inf
        return now if worker is None else min(now, worker.born_at)

    def _next_to_yield(self, app: str, now: float, claim: _Claim) -> Seat | None:
        """Return a busy seat of an app whose next call would come after this one's if all stood in one line.

        Whoever sits there finishes what it runs, and gets no more. For what is owed, anybody yields.
        """
        able = []
        for seat in self._victims(app, claim) if claim is not _Claim.MORE else ():
            if seat.heir is None and (claim is _Claim.OWED or self._comes_before(app, seat.apps)):
                worker = self._roster.holder(seat)
                running = 0 if worker is None else len(worker.running)
                rank = (-self._held[seat.apps[0]], running, self.usage.of(seat.apps[0], now))
                able.append((*rank, -seat.index))
        return self._roster.seats[-min(able)[3]] if able else None

    def _comes_before(self, app: str, others: Apps) -> bool:
        own, theirs = ([(each, kind) for each in apps for kind in ActionKind] for apps in ((app,), others))
        return self._queue.next_lane([*own, *theirs]) in own

    # --- fewer ---

    def _give_up_broken(self) -> None:
        """A place that waits for an app whose circuit is open is of use to others."""
        if self.layout.is_dynamic:
            broken = [seat for seat in self._staying() if seat.is_vacant and any(map(self._is_broken, seat.apps))]
            self._give_up(broken)

    def _shrink(self, now: float) -> None:
        excess = self._roster.seats.size - self.floor
        if excess <= 0:
            return
        unneeded = [seat for seat in self._staying() if seat.is_vacant and self._may_leave(seat)]
        idle = [seat for seat in self._staying() if self._is_idle(seat) and self._may_leave(seat)]
        for seat in [*unneeded, *sorted(idle, key=lambda seat: (self._idle_since(seat), -seat.index))]:
            if excess <= 0:
                return
            due_at = self._idle_since(seat) + self._idle_s
            if now < due_at:
                self.due_at = min(self.due_at, due_at)
                return
            if self._is_spare(seat):
                self._give_up([seat])
                excess -= 1

    def _shrink_to(self, size: int) -> None:
        """Let the cheapest go until ``size`` are left, busy ones when their calls are done; never an app's fewest."""
        if not self.layout.is_dynamic:
            if self._roster.seats.size > size:
                self._roster.resize(size)
            return
        self._count()
        for seat in sorted(self._staying(), key=self._roster.cost_of):
            if self._roster.seats.size > size and self._is_beyond_few(seat):
                self._give_up([seat])

    def _may_leave(self, seat: Seat) -> bool:
        if self.layout.is_dynamic:
            return self._is_spare(seat) and not self._queue.has_work_for(seat.apps)
        return all(app in self.layout.unlimited for app in seat.apps) and not self._queue.has_work_for(seat.apps)

    def _is_beyond_few(self, seat: Seat) -> bool:
        if not self.layout.is_dynamic or not seat.apps:
            return True
        (app,) = seat.apps
        return self._held[app] > self.layout.few.get(app, 0)

    def _is_spare(self, seat: Seat) -> bool:
        """Say whether the app has more instances than it must have and than was asked for."""
        if not self._is_beyond_few(seat):
            return False
        return not any(self._held[app] <= self._asked_by_app.get(app, 0) for app in seat.apps)

    # --- small parts ---

    def _staying(self) -> list[Seat]:
        return self._roster.seats.staying()

    def _count(self) -> None:
        self._held = Counter(app for seat in self._staying() for app in seat.apps)

    def _add(self, app: str) -> None:
        apps = (app,) if self.layout.is_dynamic else self.layout.unlimited
        self._roster.seats.add(apps)
        self._held.update(apps)

    def _give_up(self, seats: list[Seat]) -> None:
        for seat in seats:
            self._held.subtract(seat.apps)
        self._roster.give_up(seats)

    def _is_ready(self, seat: Seat) -> bool:
        worker = self._roster.holder(seat)
        return worker is not None and worker.phase is Phase.READY

    def _is_idle(self, seat: Seat) -> bool:
        worker = self._roster.holder(seat)
        return worker is not None and worker.phase is Phase.READY and not worker.running and seat.heir is None

    def _idle_since(self, seat: Seat) -> float:
        worker = self._roster.holder(seat)
        return -math.inf if worker is None else worker.idle_since
