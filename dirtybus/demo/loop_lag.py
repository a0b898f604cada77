"""How late the event loop is: a ticker that sleeps 10 ms again and again and notes by how much it woke too late."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["LoopLag"]

_TICK_S: Final = 0.01


class LoopLag:
    """The lag of the running loop: the last one, and the worst so far, in seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.worst_s = 0.0

    def note(self, late_s: float) -> None:
        """Book one tick."""
        self.now_s = max(0.0, late_s)
        self.worst_s = max(self.worst_s, self.now_s)

    async def run(self) -> None:
        """Tick until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_at = loop.time() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self.note(loop.time() - due_at)
