"""The hostile world around an elastic pool: from how many to how many, who makes room, who leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.model import ActionKind, Phase, WorkerId
from dirtybus.pool.snapshot import SeatView
from tests.pool.books import SeenCall, SeenWorker
from tests.pool.worlds import World


class ElasticWorld(World):
    """Where the seats are is the pool's to say; what must be true of their number is known here."""

    def __init__(self, config: DirtyConfig, specs: list[AppSpec], threads_by_app: dict[str, int] | None = None) -> None:
        assert config.pool_size is not None
        self.least, self.most = config.pool_size
        self.is_dynamic = config.placement == "dynamic"
        self.asked = 0
        self.asked_by_app: dict[str, int] = {}
        self.idle_since: dict[WorkerId, float] = {}
        self.let_go: set[WorkerId] = set()
        #: since when calls of the app wait, or since it was last given a seat
        self.hungry: dict[str, float] = {}
        self.places: Counter[str] = Counter()
        self.is_refused = False
        super().__init__(config, specs, threads_by_app)

    # --- numbers ---

    def few(self, app: str) -> int:
        spec = self.specs[app]
        return (spec.instances or (0, 0))[0] if self.is_dynamic else (spec.workers or 0)

    def many(self, app: str) -> int:
        spec = self.specs[app]
        if not self.is_dynamic:
            return max(self.most, self.smallest)
        return min(self.most, (spec.instances or (0, spec.workers or self.most))[1])

    @property
    def smallest(self) -> int:
        return self.pool.smallest_size()

    def places_now(self) -> list[SeatView]:
        """Return the seats that are meant to stay."""
        return [seat for seat in self.pool.snapshot().seats if not seat.is_surplus]

    def held(self) -> Counter[str]:
        return Counter(app for seat in self.places_now() for app in seat.apps)

    def size_now(self) -> int:
        return len(self.places_now())

    # --- facts ---

    def feed(self, fact: ports.Fact) -> None:
        self.busy_before = {worker.id for worker in self.workers.values() if worker.running}
        super().feed(fact)

    def note_who_was_let_go(self) -> None:
        before = set(self.let_go)
        super().note_who_was_let_go()
        for worker in self.workers.values():
            if worker.is_let_go and not worker.is_broken:
                self.let_go.add(worker.id)
        for worker_id in self.let_go - before:
            self.see_let_go(self.workers[worker_id])
        for worker in self.workers.values():
            if worker.running or worker.ready_at is None:
                self.idle_since.pop(worker.id, None)
            else:
                self.idle_since.setdefault(worker.id, self.now)

    def see_let_go(self, worker: SeenWorker) -> None:
        is_ordered = isinstance(self.fact, ports.Resized | ports.Bounded | ports.DrainBegun) or self.deadline < math.inf
        if is_ordered or not worker.running:
            return
        assert self.is_dynamic, f"worker {worker.id} was busy and had to go"
        starving = {seen.call.app for seen in self.calls.values() if seen.is_queued}
        owed = {app for app in self.specs if self.held()[app] <= self.few(app)}
        assert (starving | owed) - set(worker.apps), f"worker {worker.id} was busy and had to go for nobody"

    def resize(self, size: int) -> None:
        if self.deadline == math.inf:
            self.asked = size
        self.feed(ports.Resized(size))

    def resize_app(self, app: str, size: int) -> None:
        if self.is_dynamic and self.deadline == math.inf:
            others = sum(self.few(other) for other in self.specs if other != app)
            self.asked_by_app[app] = max(self.few(app), min(size, self.many(app), self.most - others))
        self.feed(ports.Resized(size, app))

    def bound(self, least: int, most: int) -> None:
        if self.deadline == math.inf:
            own = [self.few(app) for app in self.specs]
            needed = sum(own) + (0 in own) if self.is_dynamic else max(own)
            self.most = max(most, needed, 1)
            self.least = min(least, self.most)
        self.feed(ports.Bounded(least, most))

    def book_death(self, worker: SeenWorker) -> None:
        """Delays pass from seat to seat with the app; they are judged in tests of their own."""

    def is_forsaken(self, app: str) -> bool:
        lives = any(app in worker.apps for worker in self.workers.values())
        delays = [seat.spawn_in_s or 0.0 for seat in self.pool.snapshot().seats if app in seat.apps]
        return not lives and (min(delays) > 2.0 if delays else self.is_refused)

    # --- orders ---

    def see_refusal(self, seen: SeenCall, order: ports.Refuse) -> None:
        self.is_refused = True
        super().see_refusal(seen, order)
        self.is_refused = False

    def see_place(self, seat: int, apps: tuple[str, ...]) -> None:
        if self.is_dynamic:
            assert len(apps) == 1, f"a worker with {apps}, where each holds one"

    def see_size(self) -> None:
        most = max(self.most, self.smallest)
        assert len(self.workers) <= most, f"{len(self.workers)} processes where {most} may be"
        for app in self.specs:
            holders = sum(1 for w in self.workers.values() if app in w.apps and not self.is_leaving(w))
            assert holders <= self.many(app), f"{holders} workers hold {app}"

    # --- what must hold ---

    def check(self) -> None:
        super().check()
        if self.deadline < math.inf:
            return
        held = self.held()
        for app in self.specs:
            assert held[app] >= self.few(app), f"{held[app]} places hold {app}, which must have {self.few(app)}"
        assert self.size_now() <= max(self.most, self.smallest), "more places than may be"
        if not self.is_dynamic or sum(map(self.many, self.specs)) >= self.floor():
            assert self.size_now() >= self.floor(), f"{self.size_now()} places, and {self.floor()} are the least"
        for app in {seen.call.app for seen in self.calls.values() if seen.is_queued}:
            assert held[app] or not self.could_have_a_place(app), f"calls for {app} wait, and it has no place"

    def floor(self) -> int:
        if not self.is_dynamic and all(spec.workers for spec in self.specs.values()):
            return self.smallest  # no app would be on any other
        return min(max(self.least, self.asked, self.smallest), self.most)

    def could_have_a_place(self, app: str) -> bool:
        if self.size_now() < self.most:
            return True
        held = self.held()
        phases = {view.id: view.phase for view in self.pool.snapshot().workers}
        return any(
            phases[worker.id] is Phase.READY and not worker.running and all(held[a] > self.few(a) for a in worker.apps)
            for worker in self.workers.values()
        )

    def alarms(self) -> Iterator[tuple[float, str]]:
        yield from super().alarms()
        if self.deadline < math.inf:
            return
        if self.size_now() > self.floor() and self.config.max_idle_time_s:
            held = self.held()
            waiting = {seen.call.app for seen in self.calls.values() if seen.is_queued}
            for worker_id, since in self.idle_since.items():
                worker = self.workers.get(worker_id)
                if (
                    worker is None
                    or worker.is_let_go
                    or worker.is_told
                    or worker.is_killed
                    or waiting & set(worker.apps)
                ):
                    continue
                if self.is_dynamic:
                    may_leave = all(held[a] > max(self.few(a), self.asked_by_app.get(a, 0)) for a in worker.apps)
                else:
                    may_leave = all(self.specs[app].workers is None for app in worker.apps)
                if may_leave:
                    yield since + self.config.max_idle_time_s, f"the leave of {worker_id}, which is idle"
        yield from self.growth()

    def growth(self) -> Iterator[tuple[float, str]]:
        """Yield when an app that waits for more than what comes must get one more place, where there is room."""
        held = self.held()
        queued = [seen for seen in self.calls.values() if seen.is_queued]
        apps = {seen.call.app for seen in queued}
        self.hungry = {app: since for app, since in self.hungry.items() if app in apps}
        for app in apps:
            # a step that takes a place away from one app may have given it another one
            if app not in self.hungry or held != self.places or isinstance(self.fact, ports.Resized | ports.Bounded):
                self.hungry[app] = self.now
        self.places = held
        for app in apps:
            is_open = held[app] < self.many(app) if self.is_dynamic else self.specs[app].workers is None
            sync = sum(1 for seen in queued if seen.lane == (app, ActionKind.SYNC))
            if is_open and held[app] and self.size_now() < self.most and sync > self.coming(app):
                yield self.hungry[app] + self.config.scale_up_after_s, f"one more worker for {app}"

    def coming(self, app: str) -> int:
        ready = {view.seat for view in self.pool.snapshot().workers if view.phase is Phase.READY}
        seats = [seat for seat in self.places_now() if app in seat.apps and seat.index not in ready]
        own = self.threads_by_app.get(app, self.config.threads)
        return sum(min(own, max(self.threads_by_app.get(a, self.config.threads) for a in seat.apps)) for seat in seats)

    def due_spawns(self) -> Iterator[tuple[float, str]]:
        # else it waits for one that boots or leaves, not for time
        if self.may_start() and len(self.workers) < max(self.most, self.smallest):
            for seat in self.places_now():
                if seat.spawn_in_s is not None:
                    yield self.now + seat.spawn_in_s, f"the next worker of seat {seat.index}"

    # --- endings ---

    def assert_whole(self) -> None:
        assert all(seen.ended for seen in self.calls.values()), "a call got no end in a kind world"
        ready = [worker for worker in self.workers.values() if worker.ready_at is not None and not worker.is_told]
        assert len(ready) >= min(self.floor(), self.size_now())
        for app in self.specs:
            assert sum(1 for worker in ready if app in worker.apps) >= self.few(app), f"{app} has fewer than its fewest"
        if self.config.max_idle_time_s:
            fewest = max(self.floor(), sum(map(self.few, self.specs)) if self.is_dynamic else self.smallest)
            fewest = max(fewest, sum(max(self.few(app), self.asked_by_app.get(app, 0)) for app in self.specs))
            assert len(ready) <= fewest or not self.is_dynamic, f"{len(ready)} workers stay, {fewest} would do"
