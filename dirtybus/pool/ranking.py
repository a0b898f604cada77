"""Keys in order of a number, smallest first, any of which may be taken out at any time. Asks nobody the time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Ranking"]

K = TypeVar("K", bound=Hashable)

#: Below this many, entries that are no longer valid are not worth a sweep.
_SLACK = 64


class Ranking(Generic[K]):
    """A heap whose entries can be dropped by key. Equal ranks come out in the order they were put in.

    All operations cost O(log n), spread over their number: a dropped key leaves a husk in the heap, and the husks
    are swept once they clearly outnumber the rest, so that a million short calls with far deadlines leave nothing.
    """

    def __init__(self) -> None:
        self._stamps: dict[K, int] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._next_stamp = count()

    def __len__(self) -> int:
        return len(self._stamps)

    def __iter__(self) -> Iterator[K]:
        return iter(self._stamps)

    def __contains__(self, key: K) -> bool:
        return key in self._stamps

    def put(self, key: K, rank: float) -> None:
        """Place ``key`` at ``rank``, wherever it stood before."""
        stamp = next(self._next_stamp)
        self._stamps[key] = stamp
        heappush(self._heap, (rank, stamp, key))
        self._sweep()

    def drop(self, key: K) -> None:
        """Take ``key`` out; nothing happens when it is not in."""
        if self._stamps.pop(key, None) is not None:
            self._sweep()

    def first_rank(self) -> float | None:
        """Return the smallest rank; None when empty."""
        self._shed()
        return self._heap[0][0] if self._heap else None

    def first(self) -> K | None:
        """Return the first key, which stays in; None when empty."""
        self._shed()
        return self._heap[0][2] if self._heap else None

    def first_entry(self) -> tuple[float, K]:
        """Return the smallest rank and its key, of a ranking that is not empty."""
        self._shed()
        rank, _, key = self._heap[0]
        return rank, key

    def take_first(self) -> K | None:
        """Take out the first key and return it; None when empty."""
        self._shed()
        if not self._heap:
            return None
        key = heappop(self._heap)[2]
        del self._stamps[key]
        return key

    def take_until(self, rank: float) -> list[K]:
        """Take out every key at ``rank`` or before, and return them in order."""
        taken: list[K] = []
        while (first := self.first_rank()) is not None and first <= rank:
            key = heappop(self._heap)[2]
            del self._stamps[key]
            taken.append(key)
        return taken

    def check(self) -> None:
        """Raise AssertionError when the heap and the index disagree."""
        valid = {key for _, stamp, key in self._heap if self._stamps.get(key) == stamp}
        assert valid == self._stamps.keys(), f"a ranking lost {self._stamps.keys() - valid}"

    def _shed(self) -> None:
        while self._heap and self._stamps.get(self._heap[0][2]) != self._heap[0][1]:
            heappop(self._heap)

    def _sweep(self) -> None:
        if len(self._heap) <= 2 * len(self._stamps) + _SLACK:
            return
        self._heap = [entry for entry in self._heap if self._stamps.get(entry[2]) == entry[1]]
        heapify(self._heap)
