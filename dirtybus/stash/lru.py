"""Which entry was used the longest time ago."""

from __future__ import annotations

from typing import Final

from dirtybus.stash.buckets import Buckets
from dirtybus.stash.entry import Entry

__all__ = ["SAMPLE", "OldestFinder"]

#: How many buckets are looked at; each has its own oldest entry first.
SAMPLE: Final = 16


class OldestFinder:
    """Finds the oldest entry exactly among up to `SAMPLE` buckets; among more, that of so many buckets by turns."""

    __slots__ = ("_hand",)

    def __init__(self) -> None:
        self._hand = 0

    def find(self, entries: Buckets[Entry], but: bytes) -> tuple[bytes, Entry] | None:
        """Return the key and the entry; never that of the key ``but``. None: there is no other."""
        buckets = entries.all
        oldest: tuple[bytes, Entry] | None = None
        looked_at = 0
        for offset in range(len(buckets)):
            head = buckets[(self._hand + offset) % len(buckets)].first(but)
            if head is None:
                continue
            looked_at += 1
            if oldest is None or head[1].used_at < oldest[1].used_at:
                oldest = head
            if looked_at == SAMPLE:
                self._hand = (self._hand + offset + 1) % len(buckets)
                break
        return oldest
