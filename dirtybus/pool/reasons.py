"""Why a worker or a queue is as it is, in words for people. Changes nothing and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dirtybus.pool.layout import Layout
from dirtybus.pool.model import Phase, Worker
from dirtybus.pool.roster import Roster
from dirtybus.pool.seats import Seat

__all__ = ["why_waiting", "why_worker"]


def why_worker(worker: Worker, seat: Seat | None, now: float) -> str:
    """Return the state of the worker with its reason; ``seat`` is its own, None when that was given to another."""
    running = len(worker.running)
    match worker.phase:
        case Phase.BOOTING:
            heir = seat is not None and seat.heir == worker.id and seat.worker is not None
            whose = f", to take the place of worker {seat.worker}" if heir and seat is not None else ""
            return f"boots for {now - worker.born_at:.1f} s{whose}"
        case Phase.READY if running:
            return f"runs {_counted(running, 'call')}"
        case Phase.READY:
            return f"idle for {now - worker.idle_since:.1f} s"
        case Phase.DRAINING if worker.is_leaving and running:
            return f"leaves when the {_counted(running, 'call')} in it ended"
        case Phase.DRAINING if worker.is_leaving:
            return "was told to leave"
        case Phase.DRAINING:
            return "could not boot; its exit is awaited"
        case Phase.KILLED:
            return "killed; its exit is awaited"


def why_waiting(
    app: str, roster: Roster, layout: Layout, now: float, *, is_broken: bool, is_gathering: bool = False
) -> str:
    """Return why calls of the app wait; ``is_gathering`` when they do so for each other, to run as one."""
    if is_broken:
        return "its workers keep failing; the next try is awaited"
    if is_gathering:
        return "they wait for others to run with, as one batch"
    holders = [worker for worker in roster if app in worker.apps]
    ready = [worker for worker in holders if worker.phase is Phase.READY]
    booting = [worker for worker in holders if worker.phase is Phase.BOOTING]
    parts = []
    if ready:
        parts.append(f"{_counted(len(ready), 'worker')} with it, all busy")
    if booting:
        parts.append(f"{_counted(len(booting), 'worker')} about to be ready")
    if not parts:
        parts.append("no worker has it")
    vacant = [seat for seat in roster.seats.staying() if app in seat.apps and seat.is_vacant]
    parts += _about(vacant, roster, layout, now)
    return "; ".join(parts)


def _about(vacant: Sequence[Seat], roster: Roster, layout: Layout, now: float) -> list[str]:
    """Return what is known of those that are to come."""
    if vacant:
        at = min(seat.spawn_at for seat in vacant)
        if at > now:
            return [f"the next is started in {at - now:.1f} s, after a death"]
        return ["the next is started when another has left"]
    if layout.is_elastic and roster.seats.size >= layout.most:
        return [f"the pool has its most workers, {layout.most}"]
    return []


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
