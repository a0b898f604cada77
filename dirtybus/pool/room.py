"""Whether one more process may be started now. Counts those that there are; starts nobody."""

from __future__ import annotations

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import Phase
from dirtybus.pool.roster import Roster
from dirtybus.pool.seats import Seat

__all__ = ["Room"]


class Room:
    """The limits of how many processes there are, and of how many boot at the same time.

    Who finds no room waits for a fact, not for time: room comes when a worker is ready, or gone.
    """

    def __init__(self, config: DirtyConfig, roster: Roster) -> None:
        self._roster = roster
        self.reconfigure(config)

    def reconfigure(self, config: DirtyConfig) -> None:
        """Go by other limits from now on."""
        self._max_surge = config.max_surge
        self._max_starting = config.max_starting

    def may_start(self) -> bool:
        """Say whether one more may boot beside those that do."""
        if self._max_starting is None:
            return True
        return sum(1 for worker in self._roster if worker.phase is Phase.BOOTING) < self._max_starting

    def has_place(self) -> bool:
        """Say whether one more worker fits; in an elastic pool those that leave still count, heirs do not.

        Places of limited apps may be more than a most that was lowered since.
        """
        layout = self._roster.seats.layout
        if not self.may_start() or not layout.is_elastic:
            return self.may_start()
        heirs = sum(1 for seat in self._roster.seats if seat.heir is not None)
        return len(self._roster) - heirs < max(layout.most, self._roster.seats.smallest_size)

    def has_place_on(self, seat: Seat, size: int) -> bool:
        """Say whether one more may boot on the seat, as its holder or as an heir."""
        return self.has_place() if seat.is_vacant else self.has_place_for_heir(size)

    def has_place_for_heir(self, size: int) -> bool:
        """Say whether one more may boot beside the worker that it will replace, where ``size`` are aimed at."""
        vacant = sum(1 for seat in self._roster.seats if seat.is_vacant and seat.apps)  # who comes there needs room too
        return self.may_start() and len(self._roster) + vacant < size + max(1, self._max_surge)
