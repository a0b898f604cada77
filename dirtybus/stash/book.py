"""What all tables count together: versions, memory, what is due, what changed. Knows no table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dirtybus.errors import StashFull
from dirtybus.stash.entry import FOREVER
from dirtybus.stash.note import Note

__all__ = ["Book"]

T = TypeVar("T")


class Book:
    """The one set of counters that every table writes into.

    Args:
        max_bytes: how much memory all tables may take; None: any.
        first_version: the version before the first change.
    """

    def __init__(self, max_bytes: int | None, first_version: int) -> None:
        self.max_bytes = max_bytes
        self.version = first_version
        self.memory_bytes = 0
        #: no table has anything due before
        self.due_at = FOREVER
        #: what changed in tables that somebody follows, until it is taken
        self.notes: list[Note] = []
        #: how to take back what was changed since a transaction began; None outside of one
        self.undo: list[Callable[[], object]] | None = None
        #: large things that nobody needs any more, to be let go of bit by bit
        self.trash: list[Any] = []
        self._given_up: list[Any] = []
        self._ordered: dict[int, object] = {}

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def check_room(self, more_bytes: int, table: str) -> None:
        """Raise StashFull if all tables together would take too much memory."""
        if self.max_bytes is not None and more_bytes > 0 and self.memory_bytes + more_bytes > self.max_bytes:
            raise StashFull(
                f"the stash holds {self.memory_bytes} of at most {self.max_bytes} bytes, so {more_bytes} more for "
                f"table {table!r} do not fit; delete entries, let them expire, or raise stash.max_bytes",
                {"table_name": table, "max_bytes": self.max_bytes},
            )

    def note_due(self, moment: float) -> None:
        self.due_at = min(self.due_at, moment)

    def take_notes(self) -> list[Note]:
        """Return the changes since the last look."""
        notes, self.notes = self.notes, []
        return notes

    def all_or_nothing(self, steps: Callable[[], T]) -> T:
        """Do ``steps``; when one raises, take back all that they did. Inside of another such, they belong to it."""
        if self.undo is not None:
            return steps()
        notes_before = len(self.notes)
        self.undo = []
        try:
            result = steps()
        except BaseException:
            self._roll_back(notes_before)
            raise
        self._commit()
        return result

    def give_up(self, large: Any) -> None:
        """Let go of a large thing bit by bit: from now on, or from when the transaction has succeeded."""
        (self.trash if self.undo is None else self._given_up).append(large)

    def is_first_look(self, thing: object) -> bool:
        """Whether the transaction has not asked so of ``thing`` before; False outside of one."""
        if self.undo is None or id(thing) in self._ordered:
            return False
        self._ordered[id(thing)] = thing  # kept, so that nothing else can have its id meanwhile
        return True

    def _commit(self) -> None:
        self.undo = None
        self.trash += self._given_up
        self._end()

    def _roll_back(self, notes_before: int) -> None:
        """Take back what was done, the latest first."""
        undo, self.undo = self.undo, None
        for step in reversed(undo or ()):
            step()
        del self.notes[notes_before:]
        self._end()

    def _end(self) -> None:
        self._given_up, self._ordered = [], {}
