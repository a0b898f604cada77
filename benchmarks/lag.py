"""How long an event loop keeps others waiting: how late a task is that wants to run every millisecond."""

from __future__ import annotations

import asyncio
from time import perf_counter
from types import TracebackType
from typing import Final, Self

__all__ = ["Ticker"]

_PERIOD_S: Final = 0.001


class Ticker:
    """``async with Ticker() as ticker: ...``; then ``ticker.worst_ms`` is the longest that the loop was away."""

    def __init__(self) -> None:
        self.worst_ms = 0.0
        self.ticks = 0

    async def __aenter__(self) -> Self:
        self._due_at = perf_counter()
        self._task = asyncio.create_task(self._tick(), name="ticker")
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._note()  # a loop that was held until now has not let it tick

    async def _tick(self) -> None:
        while True:
            self._due_at = perf_counter() + _PERIOD_S
            await asyncio.sleep(_PERIOD_S)
            self._note()
            self.ticks += 1

    def _note(self) -> None:
        self.worst_ms = max(self.worst_ms, (perf_counter() - self._due_at) * 1000)
