"""How many processes the kernel killed for want of memory between two looks. Reads no counter of its own accord."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OomCounter"]

#: looks as near as this belong together: one shortage often costs several workers
_TOGETHER_S = 2.0


class OomCounter:
    """Compare the counter with what it was.

    Args:
        read: gives the number now, or None where it is not known.
    """

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._before = self._last = read()
        self._looked_at = float("-inf")

    def look(self, now: float) -> int | None:
        """Return by how much it went up since the look before this one; None when that cannot be known."""
        count = self._read()
        if now - self._looked_at > _TOGETHER_S:
            self._before = self._last
        self._last, self._looked_at = count, now
        return None if count is None or self._before is None else count - self._before
