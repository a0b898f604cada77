"""How the run time of a batch follows its cost: a straight line through what was measured. Knows no call."""

from __future__ import annotations

import math

__all__ = ["LineFit"]

#: what each new measurement leaves of the weight of those before it: the last twenty or so count
_KEPT = 0.95
#: how much a measurement moves the mean deviation
_WEIGHT = 0.1
#: a measurement farther off the line than so many mean deviations counts as one that is so far off
_FARTHEST = 4.0
#: a line that was always right is still allowed to be wrong by this share
_LEAST_DEVIATION = 0.05
#: below this share of its largest value, the spread of the costs is too small for a slope
_LEAST_SPREAD = 1e-3
#: how far beyond the largest measured cost the line is believed
_REACH = 2.0
#: what each new measurement leaves of the largest cost, so that what was long ago is measured anew
_REACH_KEPT = 0.99


class LineFit:
    """``seconds = a * cost + b`` by least squares, where older measurements fade and single ones far off count little.

    ``a`` and ``b`` are never below zero. As long as all costs were alike, the line goes through the origin: of a
    larger batch it expects the worst. One a little larger is tried all the same, as nothing else would ever tell.
    """

    def __init__(self) -> None:
        self._weight = 0.0
        self._x = 0.0
        self._y = 0.0
        self._xx = 0.0
        self._xy = 0.0
        self._deviation: float | None = None
        self._reach = 0.0

    def note(self, cost: float, seconds: float) -> None:
        """Take a measured batch into account."""
        cost = max(cost, 1.0)
        if self._weight:
            seconds = self._within_reason(cost, seconds)
        self._weight = _KEPT * self._weight + 1.0
        self._x = _KEPT * self._x + cost
        self._y = _KEPT * self._y + seconds
        self._xx = _KEPT * self._xx + cost * cost
        self._xy = _KEPT * self._xy + cost * seconds
        self._reach = max(_REACH_KEPT * self._reach, cost)

    def line(self) -> tuple[float, float]:
        """Return ``a`` and ``b``; both 0 before the first measurement."""
        if not self._weight:
            return 0.0, 0.0
        if not self._is_spread:
            return self._y / self._x, 0.0
        spread = self._weight * self._xx - self._x * self._x
        a = (self._weight * self._xy - self._x * self._y) / spread
        b = (self._y - a * self._x) / self._weight
        if a < 0.0:
            return 0.0, self._y / self._weight
        if b < 0.0:
            return self._xy / self._xx, 0.0
        return a, b

    def largest_within(self, seconds: float) -> float:
        """Return the largest cost that should take no longer; 0 where none is known to be that quick.

        It is at most twice what was measured of late, and one more than that while all costs were alike.
        """
        if not self._weight:
            return 0.0
        a, b = self.line()
        if b > seconds:
            return 0.0
        largest = min(_REACH * self._reach, (seconds - b) / a if a > 0.0 else math.inf)
        is_probe = not self._is_spread and a * self._reach + b <= seconds
        return max(largest, self._reach + 1.0) if is_probe else largest

    @property
    def _is_spread(self) -> bool:
        """Whether the costs differ enough for a slope."""
        return self._weight * self._xx - self._x * self._x > _LEAST_SPREAD * self._weight * self._xx

    def _within_reason(self, cost: float, seconds: float) -> float:
        a, b = self.line()
        expected = a * cost + b
        known = self._deviation
        if known is not None:
            most = _FARTHEST * max(known, _LEAST_DEVIATION * expected)
            seconds = min(max(seconds, expected - most), expected + most)
        off = abs(seconds - expected)
        self._deviation = off if known is None else known + _WEIGHT * (off - known)
        return seconds
