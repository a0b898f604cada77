"""Tells the bus what changed in the stash, as fast as its listeners take it. Knows no table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

from loguru import logger

from dirtybus.events import StashChanged
from dirtybus.protocol.codec import loaded_types
from dirtybus.stash.news import News
from dirtybus.stash.watchers import key_or_none

__all__ = ["Reporter"]

#: So many events are with their listeners at the same time.
_AT_ONCE: Final = 100


class Reporter:
    """Turns news into `StashChanged` events, in their order.

    The next hundred are posted when the listeners have done with those before: a listener that is slow makes a gap, not
    a heap of events.

    Args:
        news: what it reads.
        tell: posts an event; what it returns is done when the listeners are. None: nobody listens.
    """

    def __init__(self, news: News, tell: Callable[[StashChanged], Awaitable[object] | None]) -> None:
        self._news = news
        self._tell = tell
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the loop that runs now. May be called twice."""
        if self._task is None:
            loop, called = asyncio.get_running_loop(), asyncio.Event()

            def call() -> None:  # from any thread
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(called.set)

            self._news.on_any = call
            self._task = loop.create_task(self._run(called), name="dirtybus stash news")

    async def close(self) -> None:
        """End, and wait for it; what was not told yet is not told any more. May be called twice."""
        task = self._task
        self.kill()
        if task is not None:
            await asyncio.wait({task})

    def kill(self) -> None:
        """End, from any thread. May be called twice."""
        self._news.on_any = lambda: None
        task, self._task = self._task, None
        if task is not None:
            with suppress(RuntimeError):  # the loop has ended
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def _run(self, called: asyncio.Event) -> None:
        while True:
            events = list(self._next())
            if not events:
                await called.wait()
                called.clear()
                continue
            try:
                posted = [told for event in events if (told := self._tell(event)) is not None]
                await asyncio.gather(*posted, return_exceptions=True)
            except Exception:
                logger.exception("changes of the stash could not be put on the bus")
            await asyncio.sleep(0)

    def _next(self) -> Iterator[StashChanged]:
        notes, lost = self._news.take(_AT_ONCE)
        for note in notes:
            key = key_or_none(note.key, loaded_types)
            yield StashChanged(note.table, note.kind, key=key, key_bytes=note.key, version=note.version)
        for table, count in lost.items():
            yield StashChanged(table, "gap", lost=count)
