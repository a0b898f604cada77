"""The one timer of the arbiter: fires once at the moment it is set for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Timer"]


class Timer:
    """Calls ``on_due`` at a moment of the loop's clock; setting it again replaces the moment."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._handle: asyncio.TimerHandle | None = None

    def set_for(self, moment: float | None) -> None:
        """Fire at ``moment``, at once if it has passed; None: not at all."""
        if self._handle is not None:
            if self._handle.when() == moment:
                return
            self._handle.cancel()
            self._handle = None
        if moment is not None:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_at(max(moment, loop.time()), self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._on_due()
