"""The workers: who lives, in which phase, on which seat, and by when each must have moved on.

Never learns which calls wait; it says who could take one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool.idle import Idle
from dirtybus.pool.layout import Layout
from dirtybus.pool.model import CallId, Lane, Phase, Running, Worker, WorkerId
from dirtybus.pool.placement import Apps, why_not
from dirtybus.pool.ranking import Ranking
from dirtybus.pool.restarts import Jitter, deaths_in_a_row, restart_delay_s
from dirtybus.pool.seats import Seat, Seats
from dirtybus.pool.slots import Slots

__all__ = ["Roster"]

_NOBODY: Mapping[WorkerId, Worker] = {}


class Roster:
    """Seats, workers and slots, as one set of books.

    Raises:
        ConfigError: the specs do not fit on ``config.workers`` seats.
    """

    def __init__(
        self,
        config: DirtyConfig,
        specs: Sequence[AppSpec],
        *,
        jitter: Jitter | None = None,
        threads_by_app: Mapping[str, int] | None = None,
    ) -> None:
        self._config = config
        self._jitter = jitter
        self.seats = Seats(Layout.of(config, specs))
        #: the limits of each generation of workers
        self._slots = {0: Slots(config, threads_by_app or {})}
        self._newest = 0
        #: the generation whose settings and places hold
        self.current = 0
        self._workers: dict[WorkerId, Worker] = {}
        #: the ready workers of each app, in the order in which they became ready
        self._ready: dict[str, dict[WorkerId, Worker]] = {spec.path: {} for spec in specs}
        self._idle = Idle()
        self._served = frozenset(self._ready)
        self._leavers: dict[WorkerId, Worker] = {}
        self._kills: Ranking[WorkerId] = Ranking()
        self._next_id = count(1)
        self._next_readied = count()

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, worker_id: WorkerId) -> Worker | None:
        return self._workers.get(worker_id)

    def holder(self, seat: Seat) -> Worker | None:
        """Return who holds the seat; heirs do not yet."""
        return None if seat.worker is None else self._workers.get(seat.worker)

    def seat_of(self, worker: Worker) -> Seat | None:
        """Return the seat that the worker holds, or is the heir of."""
        return self.seats[worker.seat] if worker.is_seated else None

    def serves(self, app: str) -> bool:
        """Say whether the app is one of the specs; each of those has a seat at any time."""
        return app in self._served

    def has_ready(self, app: str) -> bool:
        """Say whether a ready worker holds the app."""
        return bool(self._ready.get(app))

    def holds(self, app: str) -> bool:
        """Say whether a living worker, ready or not, that is not about to leave holds the app."""
        return any(app in worker.apps and worker.phase in (Phase.BOOTING, Phase.READY) for worker in self)

    @property
    def has_leavers(self) -> bool:
        """Whether a worker that was let go still runs calls."""
        return bool(self._leavers)

    # --- slots ---

    def pick(self, lane: Lane) -> Worker | None:
        """Return who should run a call of the lane; None when nobody has room.

        That is, of the ready workers with room, one of the newest generation, there the least busy one, and of these
        the first.
        """
        idle = self._idle.first(lane[0], self._workers)
        if idle is not None and idle.generation == self._newest:
            return idle
        best, fewest = None, math.inf
        for worker in self._ready.get(lane[0], _NOBODY).values():
            busy = len(worker.running)
            if best is not None and (worker.generation, -busy) <= (best.generation, -fewest):
                continue
            if self._slots[worker.generation].has_room(worker, lane):
                best, fewest = worker, busy
        return best

    def slots_for(self, lane: Lane) -> int:
        """Return how many calls of the lane the ready workers can run at once."""
        ready = self._ready.get(lane[0], _NOBODY).values()
        return sum(self._slots[worker.generation].capacity(worker, lane) for worker in ready)

    def threads_for(self, apps: Apps, app: str) -> int:
        """Return how many sync calls of the app a worker with ``apps`` would run at once."""
        return self._slots[self.current].threads_of(apps, app)

    def lanes_with_room(self, worker: Worker) -> Iterator[Lane]:
        """Yield the lanes from which the worker can take a call; none when it is not ready."""
        is_ready = worker.phase is Phase.READY
        return self._slots[worker.generation].lanes_with_room(worker) if is_ready else iter(())

    def take_slot(self, worker: Worker, running: Running) -> None:
        self._slots[worker.generation].take(worker, running)

    def free_slot(self, worker: Worker, call_id: CallId) -> Running | None:
        running = self._slots[worker.generation].free(worker, call_id)
        if running is not None and not worker.running and worker.phase is Phase.READY:
            self._idle.add(worker)
        return running

    # --- a worker's life ---

    def seat_worker(self, seat: Seat, apps: Apps, now: float, *, generation: int, as_heir: bool = False) -> Worker:
        """Book a new worker with ``apps`` on the seat, or as the heir there; it boots from ``now`` on."""
        worker = Worker(WorkerId(next(self._next_id)), seat.index, apps, now, generation=generation)
        self._newest = max(self._newest, generation)
        worker.threads = self._slots[generation].threads_for(apps)
        self._workers[worker.id] = worker
        self.seats.occupy(seat, worker.id, as_heir=as_heir)
        if self._config.boot_timeout_s:
            self.kill_by(worker, now + self._config.boot_timeout_s)
        return worker

    def mark_ready(self, worker_id: WorkerId, now: float) -> Worker | None:
        """Book the end of booting and return the worker; None when it is not booting any more.

        An heir holds the seat from now on, and whoever held it is let go.
        """
        worker = self._workers.get(worker_id)
        if worker is None or worker.phase is not Phase.BOOTING:
            return None
        self._move(worker, Phase.READY)
        worker.ready_at = worker.idle_since = now
        worker.readied = next(self._next_readied)
        for app in worker.apps:
            self._ready[app][worker_id] = worker
        self._idle.add(worker)
        seat = self.seats[worker.seat]
        if seat.heir == worker_id:
            self._unseat(self.seats.inherit(seat))
        return worker

    def mark_broken(self, worker_id: WorkerId) -> Worker | None:
        """Book that the worker cannot boot, and return it; None when it is not booting any more."""
        worker = self._workers.get(worker_id)
        if worker is None or worker.phase is not Phase.BOOTING:
            return None
        self._move(worker, Phase.DRAINING)
        return worker

    def let_go(self, worker: Worker) -> None:
        """Give the worker no more calls; once it runs none it is among `take_idle_leavers`."""
        if worker.phase in (Phase.BOOTING, Phase.READY):
            self._move(worker, Phase.DRAINING)
            self._leavers[worker.id] = worker
            worker.is_leaving = True

    def take_idle_leavers(self) -> list[Worker]:
        """Take out those that were let go and run nothing any more; the caller tells them to leave, once."""
        idle = [worker for worker in self._leavers.values() if not worker.running]
        for worker in idle:
            del self._leavers[worker.id]
        return idle

    def kill(self, worker: Worker) -> None:
        """Book the kill; the worker stays on its seat until its exit."""
        self._move(worker, Phase.KILLED)
        self._leavers.pop(worker.id, None)

    def open_seat(self, worker: Worker, spawn_at: float = -math.inf) -> None:
        """Let the holder or heir go, and its seat be filled before it is gone, from ``spawn_at`` on."""
        seat = self.seats[worker.seat]
        self.let_go(worker)
        worker.is_seated, worker.is_leaving = False, True
        self.seats.vacate(seat, worker.id, spawn_at)

    def bury(self, worker_id: WorkerId, now: float) -> Worker | None:
        """Book the exit: take the worker off its seat, which waits for the next one. None when unknown."""
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return None
        for app in worker.apps:
            self._ready[app].pop(worker_id, None)
        self._leavers.pop(worker_id, None)
        self._kills.drop(worker_id)
        if worker.is_seated:
            seat = self.seats[worker.seat]
            spawn_at = now if worker.is_leaving else now + self._mourn(seat, worker, now)
            self.seats.vacate(seat, worker_id, spawn_at)
        return worker

    # --- deadlines of workers ---

    def kill_by(self, worker: Worker, at: float) -> None:
        """Let the worker be killed at that moment, or earlier if that was booked."""
        worker.kill_at = at if worker.kill_at is None else min(at, worker.kill_at)
        self._kills.put(worker.id, worker.kill_at)

    def take_overdue(self, now: float) -> list[Worker]:
        """Take out the workers whose moment has come; the caller kills them."""
        return [self._workers[worker_id] for worker_id in self._kills.take_until(now)]

    def next_kill_at(self) -> float | None:
        return self._kills.first_rank()

    # --- size ---

    def why_not(self, size: int) -> str | None:
        return why_not(size, self.seats.smallest_size)

    def resize(self, size: int) -> None:
        """Aim at ``size`` workers, or as few as the apps allow. Those that must go are let go, idle ones first."""
        size = max(size, self.seats.smallest_size)
        self.seats.grow(size)
        self._clear(self.seats.shrink(size, self.cost_of))

    def cost_of(self, seat: Seat) -> tuple[int, ...]:
        """Rank a seat for giving up: what would be lost, then the newest first."""
        held_by = seat.heir if seat.worker is None else seat.worker
        worker = None if held_by is None else self._workers[held_by]
        if worker is None or worker.phase in (Phase.DRAINING, Phase.KILLED):
            return 1 if seat.apps else 0, 0, -seat.index
        return 2 if worker.phase is Phase.BOOTING else 3, len(worker.running), -seat.index

    def admit_generation(
        self, generation: int, config: DirtyConfig, specs: Sequence[AppSpec], threads_by_app: Mapping[str, int]
    ) -> None:
        """Let workers of a new generation be seated, with apps and limits of their own."""
        living = {worker.generation for worker in self}
        self._slots = {known: slots for known, slots in self._slots.items() if known in living or known == self.current}
        self._slots[generation] = Slots(config, threads_by_app)
        for spec in specs:
            self._ready.setdefault(spec.path, {})

    def reconfigure(self, generation: int, config: DirtyConfig, layout: Layout, plan: Sequence[Apps]) -> None:
        """Go by the settings and the places of an admitted generation from now on; who lives stays as it is."""
        self.current = generation
        self._config = config
        self._served = frozenset(spec.path for spec in layout.specs)
        self.seats.replan(layout, plan)

    def give_up(self, seats: Sequence[Seat]) -> None:
        """Give up these seats, and let go whoever sits there."""
        self._clear(self.seats.give_up(seats))

    def trim(self, size: int) -> None:
        """Give up the seats beyond a plan of so many, and the workers of those that are for no app any more."""
        self._clear(self.seats.trim(size))
        self._clear([seat for seat in self.seats.staying() if not seat.apps])

    def check(self) -> None:
        """Raise AssertionError naming what does not add up."""
        self._kills.check()
        self._idle.check(self._workers)
        self.seats.check([worker.id for worker in self if worker.is_seated])
        for worker in self:
            self._slots[worker.generation].check(worker)
            assert worker.is_seated or worker.is_leaving, f"worker {worker.id} has no seat and stays"
            assert (worker.kill_at is not None) == (worker.id in self._kills), f"worker {worker.id} has no alarm"
            is_ready = worker.phase is Phase.READY
            listed = [app for app, ready in self._ready.items() if worker.id in ready]
            assert sorted(listed) == (sorted(worker.apps) if is_ready else []), f"worker {worker.id} is listed wrongly"
            if worker.phase is Phase.DRAINING:
                assert worker.kill_at is not None or worker.id in self._leavers, f"worker {worker.id} may never leave"
        assert all(worker.running for worker in self._leavers.values()), "an idle worker was not told to leave"
        assert all(ready.keys() <= self._workers.keys() for ready in self._ready.values()), "a dead worker is listed"

    def _clear(self, seats: Sequence[Seat]) -> None:
        for seat in seats:
            for worker_id in (seat.worker, seat.heir):
                if worker_id is not None:
                    self.let_go(self._workers[worker_id])

    def _unseat(self, worker_id: WorkerId | None) -> None:
        if worker_id is not None:
            worker = self._workers[worker_id]
            worker.is_seated, worker.is_leaving = False, True
            self.let_go(worker)

    def _move(self, worker: Worker, phase: Phase) -> None:
        """Book the phase; the patience with the former one, and the calls that it allowed, end with it."""
        worker.phase, worker.kill_at = phase, None
        self._kills.drop(worker.id)
        for app in worker.apps:
            self._ready[app].pop(worker.id, None)

    def _mourn(self, seat: Seat, worker: Worker, now: float) -> float:
        """Count the death against the seat and return for how long it stays empty."""
        seat.deaths = deaths_in_a_row(seat.deaths, worker.ready_at, now, self._config.healthy_after_s)
        return restart_delay_s(seat.deaths, self._config, self._jitter)
