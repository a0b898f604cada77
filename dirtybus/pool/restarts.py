"""How long a seat waits for its next worker after deaths in a row. Draws no random numbers of its own."""

from __future__ import annotations

from collections.abc import Callable

from dirtybus.config import DirtyConfig

__all__ = ["Jitter", "deaths_in_a_row", "restart_delay_s"]

#: Gives numbers from 0 to 1, such as `random.random`.
Jitter = Callable[[], float]

#: 2**60 times any delay is past every cap; beyond lies only the overflow of a float.
_MAX_DOUBLINGS = 60


def deaths_in_a_row(before: int, ready_at: float | None, now: float, healthy_after_s: float) -> int:
    """Return the count with the death at ``now``; a worker that had been ready for long enough starts it anew."""
    was_healthy = ready_at is not None and now - ready_at >= healthy_after_s
    return 1 if was_healthy else before + 1


def restart_delay_s(deaths: int, config: DirtyConfig, jitter: Jitter | None = None) -> float:
    """Return how long to wait after the death number ``deaths`` in a row: not at all after the first.

    From the second on it is ``restart_delay_s``, doubled each time up to ``restart_delay_max_s``. With ``jitter`` the
    wait is somewhere between a half and the whole of it, so that seats that died together do not return together.
    """
    if deaths <= 1:
        return 0.0
    full_s = min(config.restart_delay_s * 2.0 ** min(deaths - 2, _MAX_DOUBLINGS), config.restart_delay_max_s)
    return full_s if jitter is None else full_s * (0.5 + 0.5 * jitter())
