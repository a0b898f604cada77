"""What runs under launart: each service only turns launart's stages into orders to somebody else."""

from __future__ import annotations

from dirtybus.services.base import DirtyService
from dirtybus.services.departure import ExitLimits
from dirtybus.services.gate_service import GateService
from dirtybus.services.guard import LaunartGuard, attach
from dirtybus.services.signal_service import SignalService
from dirtybus.services.worker_service import WorkerService

__all__ = ["DirtyService", "ExitLimits", "GateService", "LaunartGuard", "SignalService", "WorkerService", "attach"]
