"""Some entries of a table at a time, and where to go on. Changes nothing."""

from __future__ import annotations

import re

from dirtybus.stash.buckets import Buckets
from dirtybus.stash.entry import Entry, size_of
from dirtybus.stash.key import key_text

__all__ = ["page_of"]

_Page = tuple[list[tuple[bytes, Entry]], int | None]


def page_of(
    entries: Buckets[Entry], cursor: int | None, most: int, most_bytes: int, glob: re.Pattern[str] | None, now: float
) -> _Page:
    """Return some entries, and the cursor for the next ones; None: these were the last.

    A table that fits into one page comes in the order in which its keys came; a larger one in none.

    Args:
        entries: those of the table.
        cursor: where to go on; None: at the beginning.
        most: how many entries are looked at, at most.
        most_bytes: how many bytes of keys and values are given; one more entry may go beyond.
        glob: which str keys are wanted; None: all keys.
        now: what is due by then is passed by.
    """
    whole = entries.all[0].entries
    if cursor is None and len(entries) == len(whole) <= most:
        page = [(key, entry) for key, entry in whole.items() if entry.due_at > now and _matches(glob, key)]
        if sum(len(key) + size_of(entry.value) for key, entry in page) <= most_bytes:
            return page, None
    return _by_hash(entries, cursor, most, most_bytes, glob, now)


def _by_hash(
    entries: Buckets[Entry], cursor: int | None, most: int, most_bytes: int, glob: re.Pattern[str] | None, now: float
) -> _Page:
    page: list[tuple[bytes, Entry]] = []
    for seen, (number, key, entry) in enumerate(entries.after(cursor)):
        # keys of one hash are never parted: the cursor could not say which of them were given
        if (seen >= most or most_bytes <= 0) and number != cursor:
            return page, cursor
        cursor = number
        if entry.due_at > now and _matches(glob, key):
            page.append((key, entry))
            most_bytes -= len(key) + size_of(entry.value)
    return page, None


def _matches(glob: re.Pattern[str] | None, key: bytes) -> bool:
    if glob is None:
        return True
    text = key_text(key)
    return text is not None and glob.fullmatch(text) is not None
