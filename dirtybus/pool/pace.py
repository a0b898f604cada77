"""How long the calls of each app run, as observed, and what that says about a queue. Knows no call."""

from __future__ import annotations

__all__ = ["Pace"]

#: how much the newest run weighs: the last ten or so make the number
_WEIGHT = 0.2
#: a guess may not invite a stampede, nor send anybody away for good
_LEAST_S, _MOST_S = 0.05, 30.0
#: the guess of somebody who knows nothing
_UNKNOWN_S = 1.0


class Pace:
    """A moving average of run times for each app."""

    def __init__(self) -> None:
        self._run_s: dict[str, float] = {}

    def note(self, app: str, run_s: float) -> None:
        """Take a run into account, from its dispatch to its last word."""
        known = self._run_s.get(app)
        self._run_s[app] = run_s if known is None else known + _WEIGHT * (run_s - known)

    def wait_s(self, app: str, calls: int, slots: int) -> float:
        """Return in how many seconds that many calls will have been started, in so many slots; 1.0 for not known."""
        run_s = self._run_s.get(app)
        if run_s is None or not slots:
            return _UNKNOWN_S
        return min(max(run_s * calls / slots, _LEAST_S), _MOST_S)
