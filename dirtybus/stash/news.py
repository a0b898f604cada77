"""Changes on their way to the bus: of tables that are to be told about, in their order, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from dirtybus.stash.note import Note

__all__ = ["News"]

#: So many wait at most; then those of a table that come are counted instead, as a gap.
_MOST_WAITING: Final = 10_000


class News:
    """What the bus has yet to be told. Filled by whoever changes the tables, emptied by one reader.

    ``on_any`` is called when there is something after there was nothing.
    """

    def __init__(self) -> None:
        self.on_any: Callable[[], object] = lambda: None
        self._waiting: deque[Note] = deque()
        self._lost: dict[str, int] = {}

    def add(self, notes: Sequence[Note]) -> None:
        """Take changes of tables that are told about."""
        was_empty = not self._waiting
        for note in notes:
            if note.table in self._lost or len(self._waiting) >= _MOST_WAITING:
                self._lost[note.table] = self._lost.get(note.table, 0) + 1
            else:
                self._waiting.append(note)
        if was_empty and self._waiting:
            self.on_any()

    def take(self, most: int) -> tuple[list[Note], dict[str, int]]:
        """Return the next changes, and, behind the last, how many of each table were lost."""
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if self._waiting:
            return taken, {}
        lost, self._lost = self._lost, {}
        return taken, lost
