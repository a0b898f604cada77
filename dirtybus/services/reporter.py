"""Tells the bus what changed in the stash, a little at a time. Knows no table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from dirtybus.events import StashChanged
from dirtybus.protocol.codec import loaded_types
from dirtybus.stash.news import News
from dirtybus.stash.watch import key_or_none

__all__ = ["Reporter"]

#: So many events are posted in one turn of the loop; others run in between.
_AT_ONCE: Final = 100


class Reporter:
    """Turns news into `StashChanged` events, in their order, on the loop that it was started on.

    Args:
        news: what it reads.
        tell: posts an event.
    """

    def __init__(self, news: News, tell: Callable[[StashChanged], object]) -> None:
        self._news = news
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin. May be called twice."""
        self._loop = asyncio.get_running_loop()
        self._news.on_any = self._note_any
        self._turn()

    def stop(self) -> None:
        """End; what was not told yet is not told any more. May be called twice."""
        self._news.on_any = lambda: None
        self._loop = None

    def _note_any(self) -> None:
        if self._loop is not None and not self._loop.is_closed():  # news come from any thread
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        if self._loop is None:
            return
        notes, lost = self._news.take(_AT_ONCE)
        for note in notes:
            key = key_or_none(note.key, loaded_types)
            self._tell(StashChanged(note.table, note.kind, key=key, key_bytes=note.key, version=note.version))
        for table, count in lost.items():
            self._tell(StashChanged(table, "gap", lost=count))
        if len(notes) == _AT_ONCE:
            self._loop.call_soon(self._turn)
