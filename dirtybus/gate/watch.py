"""HoldWatch: warns of events that are held for long while the application prepares. It must never change the gate."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from loguru import logger

from dirtybus.gate.permits import Permits

__all__ = ["HoldWatch"]


class HoldWatch:
    """Looks at the queue of ``permits`` from `begin` to `end`; it begins by itself."""

    def __init__(self, permits: Permits[Any]) -> None:
        self._permits = permits
        self._ended = asyncio.Event()
        self._stirred = asyncio.Event()

    def begin(self) -> None:
        """Preparation lasts, or lasts again."""
        self._ended.clear()

    def end(self) -> None:
        """What is held need not be any more."""
        self._ended.set()
        self._stirred.set()

    def stir(self) -> None:
        """Something is held."""
        self._stirred.set()

    async def run(self, preparing: Callable[[], Sequence[str]], *, after_s: float) -> None:
        """Warn when something is held for ``after_s`` seconds, then after that long again, twice that, and so on."""
        pause_s = after_s
        while await self._is_overdue(after_s):
            self._warn(preparing())
            await self._is_ended_within(pause_s)
            pause_s *= 2

    def _warn(self, preparing: Sequence[str]) -> None:
        held_s = time.monotonic() - self._permits.oldest.asked_at if self._permits.oldest else 0.0
        # names are arguments, never part of the template: they may hold braces
        logger.warning(
            "{} events are held, the first for {:.1f} s; still preparing: {}",
            self._permits.pending,
            held_s,
            ", ".join(preparing) or "nothing, so what should open the gate is missing",
        )

    async def _is_overdue(self, after_s: float) -> bool:
        """Wait until something is held for ``after_s`` seconds (True) or the watch ends (False)."""
        while not self._ended.is_set():
            oldest = self._permits.oldest
            if oldest is None:
                self._stirred.clear()
                await self._stirred.wait()
                continue
            left_s = oldest.asked_at + after_s - time.monotonic()
            if left_s <= 0:
                return True
            await self._is_ended_within(left_s)
        return False

    async def _is_ended_within(self, timeout_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        return self._ended.is_set()
