"""The clockwork of a keeper on an event loop: does what is due, a little at a time."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from dirtybus.stash.keeper import Keeper

__all__ = ["Sweeper"]

#: So long one turn may take; everything else that runs on the loop comes in between.
_TURN_S: Final = 0.002
#: How far apart turns are while there is more to do: so the sweeping takes a part of the loop, not all of it.
_PAUSE_S: Final = 0.001


class Sweeper:
    """Calls `Keeper.sweep` when something is due. Sleeps until then; nothing ticks.

    Args:
        keeper: whose time it watches. Its clock must be `time.monotonic`, or one that runs like it.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def start(self) -> None:
        """Begin, on the loop that runs now. May be called twice."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._keeper.on_due = self._note_due
            self._turn()

    def stop(self) -> None:
        """End. May be called twice, and by a loop that has ended."""
        self._keeper.on_due = lambda _: None
        self._disarm()
        self._loop = None

    def _note_due(self, moment: float) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - it does not raise
            self._arm(moment)
        else:
            loop.call_soon_threadsafe(self._arm, moment)

    def _arm(self, moment: float) -> None:
        if self._loop is None or moment >= self._armed_for:
            return
        self._disarm()
        self._armed_for = moment
        self._timer = self._loop.call_later(max(0.0, moment - self._keeper.now()), self._turn)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._armed_for = None, math.inf

    def _turn(self) -> None:
        self._disarm()
        until = time.perf_counter() + _TURN_S
        while self._keeper.sweep():
            if time.perf_counter() >= until:
                if self._loop is not None:
                    self._armed_for = -math.inf
                    self._timer = self._loop.call_later(_PAUSE_S, self._turn)
                return
