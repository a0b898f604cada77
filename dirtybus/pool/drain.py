"""Whether the pool is going down, and by when. Knows neither calls nor workers."""

from __future__ import annotations

import math

__all__ = ["Drain"]

#: What a worker without calls gets for closing its apps when the deadline has come.
LAST_WORD_S = 1.0


class Drain:
    """The stages of going down: not begun, begun, cut at the deadline, done. Only ever forward.

    ``is_near`` is set, at the latest when it begins, from when on calls are ended that it would not wait for.
    ``is_cut`` and ``is_done`` are set by whoever did the cutting and saw the end.
    """

    def __init__(self) -> None:
        self._deadline = math.inf
        self.is_near = False
        self.is_begun = False
        self.is_cut = False
        self.is_done = False

    def begin(self, deadline: float) -> None:
        """Book the deadline; a second one counts only if it is earlier."""
        self._deadline = min(deadline, self._deadline)
        self.is_near = self.is_begun = True

    def is_due(self, now: float) -> bool:
        """Say whether the deadline has come and nothing was cut for it yet."""
        return self.is_begun and not self.is_cut and now >= self._deadline

    def next_at(self) -> float | None:
        """Return when `is_due` becomes true; None when it will not."""
        return None if self.is_cut or self._deadline == math.inf else self._deadline

    def last_moment(self, now: float) -> float:
        """Return until when a worker without calls may take to leave; infinite when nothing presses."""
        return max(self._deadline, now) + LAST_WORD_S
