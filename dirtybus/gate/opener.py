"""Opener: the asyncio.Event that opens a gate from outside. It must never know what waits behind the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

__all__ = ["Opener"]


class Opener:
    """Calls ``heed`` when ``event`` is set, for as long as somebody waits for that.

    Args:
        event: the signal; set means open.
        heed: called when it has been set.
    """

    def __init__(self, event: asyncio.Event, heed: Callable[[], None]) -> None:
        self._event = event
        self._heed = heed
        self._follower: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the event is set."""
        return self._event.is_set()

    def show(self, *, opened: bool) -> None:
        """Set or clear the event, so that it tells the truth."""
        if opened:
            self._event.set()
        else:
            self._event.clear()

    def follow(self) -> None:
        """Start to wait for the event, unless it is set or waited for already."""
        if self._event.is_set() or self._follower is not None:
            return
        # an empty context: the task must not look like a part of the bus event that happened to start it
        self._follower = asyncio.get_running_loop().create_task(self._wait(), context=Context())

    async def stop(self) -> None:
        """Stop waiting for the event."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait({follower})

    async def _wait(self) -> None:
        await self._event.wait()
        self._follower = None
        self._heed()
