"""How much each app was used lately: a count of calls that fades. Knows no call and no worker."""

from __future__ import annotations

__all__ = ["Usage"]

#: after so long, a call counts half
_HALF_LIFE_S = 60.0


class Usage:
    """One fading count for each app."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, float]] = {}

    def note(self, app: str, now: float) -> None:
        """Count a call."""
        self._counts[app] = (self.of(app, now) + 1.0, now)

    def of(self, app: str, now: float) -> float:
        """Return the count as of ``now``; 0 for an app that was never used."""
        count, at = self._counts.get(app, (0.0, now))
        return float(count * 0.5 ** ((now - at) / _HALF_LIFE_S))
