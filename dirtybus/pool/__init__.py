"""The pure scheduler: `Pool` and the values that go in and out. Loads nothing that touches the world."""

from __future__ import annotations

from dirtybus.pool.pool import Pool
from dirtybus.pool.snapshot import PoolSnapshot, SeatView, WorkerView

__all__ = ["Pool", "PoolSnapshot", "SeatView", "WorkerView"]
