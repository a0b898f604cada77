"""The workers: who lives, in which phase, on which seat, and by when each must have moved on.

Never learns which calls wait; it says who could take one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool.model import CallId, Lane, Phase, Running, Worker, WorkerId
from dirtybus.pool.placement import Apps, why_not
from dirtybus.pool.ranking import Ranking
from dirtybus.pool.restarts import Jitter, deaths_in_a_row, restart_delay_s
from dirtybus.pool.seats import Seat, Seats
from dirtybus.pool.slots import Slots

__all__ = ["Roster"]


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
        self._specs = tuple(specs)
        self.seats = Seats(specs, config.workers)
        self._slots = Slots(config, threads_by_app or {})
        self._workers: dict[WorkerId, Worker] = {}
        #: the ready workers of each app, in the order in which they became ready
        self._ready: dict[str, dict[WorkerId, Worker]] = {spec.path: {} for spec in specs}
        self._leavers: dict[WorkerId, Worker] = {}
        self._kills: Ranking[WorkerId] = Ranking()
        self._next_id = count(1)

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, worker_id: WorkerId) -> Worker | None:
        return self._workers.get(worker_id)

    def serves(self, app: str) -> bool:
        """Say whether the app is one of the specs; each of those has a seat at any time."""
        return app in self._ready

    def has_ready(self, app: str) -> bool:
        """Say whether a ready worker holds the app."""
        return bool(self._ready[app])

    @property
    def has_leavers(self) -> bool:
        """Whether a worker that was let go still runs calls."""
        return bool(self._leavers)

    # --- slots ---

    def pick(self, lane: Lane) -> Worker | None:
        """Return the least busy ready worker with room for a call of the lane, the first among equals."""
        best, fewest = None, math.inf
        for worker in self._ready[lane[0]].values():
            if len(worker.running) < fewest and self._slots.has_room(worker, lane):
                best, fewest = worker, len(worker.running)
                if not fewest:
                    break
        return best

    def slots_for(self, lane: Lane) -> int:
        """Return how many calls of the lane the ready workers can run at once."""
        return sum(self._slots.capacity(worker, lane) for worker in self._ready[lane[0]].values())

    def lanes_with_room(self, worker: Worker) -> Iterator[Lane]:
        """Yield the lanes from which the worker can take a call; none when it is not ready."""
        return self._slots.lanes_with_room(worker) if worker.phase is Phase.READY else iter(())

    def take_slot(self, worker: Worker, running: Running) -> None:
        self._slots.take(worker, running)

    def free_slot(self, worker: Worker, call_id: CallId) -> Running | None:
        return self._slots.free(worker, call_id)

    # --- a worker's life ---

    def seat_worker(self, seat: Seat, now: float) -> Worker:
        """Book a new worker on the seat; it boots from ``now`` on."""
        worker = Worker(WorkerId(next(self._next_id)), seat.index, seat.apps, now)
        worker.threads = self._slots.threads_for(seat.apps)
        self._workers[worker.id] = worker
        self.seats.occupy(seat, worker.id)
        if self._config.boot_timeout_s:
            self.kill_by(worker, now + self._config.boot_timeout_s)
        return worker

    def mark_ready(self, worker_id: WorkerId, now: float) -> Worker | None:
        """Book the end of booting and return the worker; None when it is not booting any more."""
        worker = self._workers.get(worker_id)
        if worker is None or worker.phase is not Phase.BOOTING:
            return None
        self._move(worker, Phase.READY)
        worker.ready_at = now
        for app in worker.apps:
            self._ready[app][worker_id] = worker
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

    def bury(self, worker_id: WorkerId, now: float) -> Worker | None:
        """Book the exit: take the worker off its seat, which waits for the next one. None when unknown."""
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return None
        for app in worker.apps:
            self._ready[app].pop(worker_id, None)
        self._leavers.pop(worker_id, None)
        self._kills.drop(worker_id)
        seat = self.seats[worker.seat]
        self.seats.vacate(seat, now if worker.is_leaving else now + self._mourn(seat, worker, now))
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
        for seat in self.seats.shrink(size, self._cost_of):
            if seat.worker is not None:
                self.let_go(self._workers[seat.worker])

    def check(self, is_needed: Callable[[Apps], bool]) -> None:
        """Raise AssertionError naming what does not add up; ``is_needed`` says which seats must not stay vacant."""
        self._kills.check()
        self.seats.check(self._workers.keys(), is_needed)
        for worker in self:
            self._slots.check(worker)
            assert self.seats[worker.seat].worker == worker.id, f"worker {worker.id} is not on its seat"
            assert worker.apps == self.seats[worker.seat].apps, f"worker {worker.id} holds other apps than its seat"
            assert (worker.kill_at is not None) == (worker.id in self._kills), f"worker {worker.id} has no alarm"
            is_ready = worker.phase is Phase.READY
            listed = [app for app, ready in self._ready.items() if worker.id in ready]
            assert sorted(listed) == (sorted(worker.apps) if is_ready else []), f"worker {worker.id} is listed wrongly"
            if worker.phase is Phase.DRAINING:
                assert worker.kill_at is not None or worker.id in self._leavers, f"worker {worker.id} may never leave"
        assert all(ready.keys() <= self._workers.keys() for ready in self._ready.values()), "a dead worker is listed"

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

    def _cost_of(self, seat: Seat) -> tuple[int, ...]:
        """Rank a seat for giving up: what would be lost, then the newest first."""
        worker = None if seat.worker is None else self._workers[seat.worker]
        if worker is None or worker.phase in (Phase.DRAINING, Phase.KILLED):
            return 1 if seat.apps else 0, 0, -seat.index
        return 2 if worker.phase is Phase.BOOTING else 3, len(worker.running), -seat.index
