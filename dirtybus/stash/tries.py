"""How long to try again what others interfere with, and how long to pause in between."""

from __future__ import annotations

import time
from typing import Final

from dirtybus.stash.spans import Span, seconds

__all__ = ["Tries"]

_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.05


class Tries:
    """Counts the tries of one piece of work. To be asked for a pause inside of ``except``.

    Args:
        within: how long to go on trying.
    """

    def __init__(self, within: Span) -> None:
        self._until = time.monotonic() + seconds(within, "within")
        self._longest_s = _FIRST_PAUSE_S

    def pause_s(self) -> float:
        """Return how long to pause before the next try: by chance, so that those who collided do not meet again.

        Raises:
            Exception: the one that is handled at the moment, when there is no time left for another try.
        """
        if time.monotonic() >= self._until:
            raise
        import random  # not on top: it is slow to load, and few workers ever come here

        self._longest_s = min(2 * self._longest_s, _LONGEST_PAUSE_S)
        return random.uniform(0, self._longest_s)  # noqa: S311 - nothing is secret about it
