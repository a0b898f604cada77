"""The picture of a pool at one moment, put together from those who know each part. Decides nothing."""

from __future__ import annotations

from dirtybus.pool.drain import Drain
from dirtybus.pool.model import Phase
from dirtybus.pool.queue import CallQueue
from dirtybus.pool.reasons import why_waiting
from dirtybus.pool.snapshot import PoolSnapshot, SeatView, WorkerView
from dirtybus.pool.staffing import Staffing

__all__ = ["line_of", "portrait"]


def portrait(staffing: Staffing, queue: CallQueue, drain: Drain, now: float) -> PoolSnapshot:
    """Return the snapshot as of ``now``."""
    roster, layout, broken = staffing.roster, staffing.layout, staffing.circuits.open_apps
    queued, awaited = queue.lengths(), {app for app, _ in queue.lanes()}
    waits = {
        app: why_waiting(app, roster, layout, now, is_broken=app in broken, is_gathering=app not in awaited)
        for app in queued
    }
    return PoolSnapshot(
        size=staffing.size,
        smallest_size=roster.seats.smallest_size,
        least=layout.least if layout.is_elastic else staffing.size,
        most=layout.most if layout.is_elastic else staffing.size,
        workers=tuple(WorkerView.of(each, roster.seat_of(each), now) for each in roster),
        seats=tuple(SeatView.of(seat, now) for seat in roster.seats),
        queued=queued,
        queued_bytes=queue.bounds.sizes(),
        waits=waits,
        broken=tuple(sorted(broken)),
        is_draining=drain.is_begun,
        is_drained=drain.is_done,
    )


def line_of(staffing: Staffing, queued: int) -> str:
    """Return the pool in one line."""
    phases = [worker.phase for worker in staffing.roster]
    layout = staffing.layout
    extent = f"{layout.least}-{layout.most} workers: " if layout.is_elastic else ""
    running = sum(len(worker.running) for worker in staffing.roster)
    return (
        f"<Pool {extent}{phases.count(Phase.READY)} ready, {phases.count(Phase.BOOTING)} booting, "
        f"{running} running, {queued} queued>"
    )
