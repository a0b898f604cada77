"""The one timer of the arbiter: fires once at the moment it is set for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

__all__ = ["Timer"]


class Timer:
    """Calls ``on_due`` at a moment of the loop's clock, or earlier: an alarm for an earlier moment is left armed.

    Most moments are deadlines of calls that end long before; to set the alarm anew for each would cost more than the
    rare ring for nothing, after which it is set for what is due then.
    """

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def set_for(self, moment: float | None) -> None:
        """Fire at ``moment`` at the latest, at once if it has passed; None: not at all."""
        if moment is None:
            self._disarm()
        elif moment < self._armed_for:
            self._disarm()
            loop = asyncio.get_running_loop()
            self._armed_for = moment
            self._handle = loop.call_at(max(moment, loop.time()), self._fire)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._armed_for = None, math.inf

    def _fire(self) -> None:
        self._handle, self._armed_for = None, math.inf
        self._on_due()
