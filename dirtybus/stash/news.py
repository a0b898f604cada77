"""Changes on their way to the bus: of tables that are to be told about, in their order, bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from dirtybus.stash.note import Note

__all__ = ["News"]

#: So many wait at most; then those that come are counted instead, and told as a gap of their table.
_MOST_WAITING: Final = 10_000


class News:
    """What the bus has yet to be told. Filled by any thread that changes tables, emptied by one reader.

    ``on_any`` is called when there is something to take and the reader has not been called since it found nothing.
    """

    def __init__(self) -> None:
        self.on_any: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._waiting: deque[Note] = deque()
        self._lost: dict[str, int] = {}
        self._is_called = False

    def add(self, notes: Sequence[Note]) -> None:
        """Take changes of tables that are told about."""
        with self._lock:
            for note in notes:
                if self._lost or len(self._waiting) >= _MOST_WAITING:
                    self._lost[note.table] = self._lost.get(note.table, 0) + 1
                else:
                    self._waiting.append(note)
            is_first, self._is_called = not self._is_called, True
        if is_first:
            self.on_any()

    def take(self, most: int) -> tuple[list[Note], dict[str, int]]:
        """Return the next changes, and behind the last, how many of each table were lost; nothing: wait to be told."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            lost: dict[str, int] = {}
            if not self._waiting:
                lost, self._lost = self._lost, {}
            self._is_called = bool(taken or lost)
            return taken, lost
