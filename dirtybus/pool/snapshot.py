"""What the pool shows of itself: plain frozen values, taken at one moment. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dirtybus.pool.model import CallId, Phase, Worker, WorkerId
from dirtybus.pool.placement import Apps
from dirtybus.pool.reasons import why_worker
from dirtybus.pool.seats import Seat

__all__ = ["PoolSnapshot", "SeatView", "WorkerView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker. ``running`` are the calls that take a slot, ``abandoned`` those of them that nobody waits for.

    ``generation`` counts the reloads before its start; ``why`` says in words why it is as it is.
    """

    id: WorkerId
    seat: int
    generation: int
    apps: Apps
    phase: Phase
    age_s: float
    running: tuple[CallId, ...]
    abandoned: tuple[CallId, ...]
    why: str

    @classmethod
    def of(cls, worker: Worker, seat: Seat | None, now: float) -> WorkerView:
        return cls(
            id=worker.id,
            seat=worker.seat,
            generation=worker.generation,
            apps=worker.apps,
            phase=worker.phase,
            age_s=now - worker.born_at,
            running=tuple(worker.running),
            abandoned=tuple(call_id for call_id, run in worker.running.items() if run.abandoned_at is not None),
            why=why_worker(worker, seat, now),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatView:
    """One place for a worker. ``spawn_in_s`` is set while it is vacant: how long it will be so, for its backoff.

    ``is_surplus`` says that it is given up as soon as whoever sits there is gone.
    """

    index: int
    apps: Apps
    worker: WorkerId | None
    deaths: int
    spawn_in_s: float | None
    is_surplus: bool

    @classmethod
    def of(cls, seat: Seat, now: float) -> SeatView:
        return cls(
            index=seat.index,
            apps=seat.apps,
            worker=seat.worker,
            deaths=seat.deaths,
            spawn_in_s=max(0.0, seat.spawn_at - now) if seat.is_vacant and seat.apps else None,
            is_surplus=seat.is_surplus,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """The whole pool. ``size`` is the number of seats that are meant to stay.

    ``queued`` is how many calls wait for each app, ``queued_bytes`` the arguments of those that were never sent to a
    worker: it is they that the bounds of the settings count. ``waits`` says in words why the calls of an app wait.
    ``least`` and ``most`` are the limits of the number of workers; they are equal where the pool is not elastic.
    """

    size: int
    smallest_size: int
    least: int
    most: int
    workers: tuple[WorkerView, ...]
    seats: tuple[SeatView, ...]
    queued: Mapping[str, int]
    queued_bytes: Mapping[str, int]
    waits: Mapping[str, str]
    broken: tuple[str, ...]
    is_draining: bool
    is_drained: bool

    @property
    def idle_seats(self) -> tuple[int, ...]:
        """The seats that hold no app, because all are limited and have their workers elsewhere."""
        return tuple(seat.index for seat in self.seats if not seat.apps)

    def count(self, phase: Phase) -> int:
        """Return how many workers are in the phase."""
        return sum(1 for worker in self.workers if worker.phase is phase)
