"""HoldPolicy: what happens to events that cannot run at once. Pure; it decides, the locker acts."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, Literal

from dirtybus.errors import ConfigError
from dirtybus.gate.permits import Permits

__all__ = ["DropReason", "HoldPolicy"]


class DropReason(enum.Enum):
    """Why an event did not run."""

    #: it came before preparation had ended, and the mode is "drop"
    NOT_READY = "not_ready"
    #: too many were held; the newest or the oldest yielded
    OVERFLOW = "overflow"
    #: too many were held, and the event was told so
    REFUSED = "refused"
    #: it was held for longer than ``hold_timeout_s``
    TIMED_OUT = "timed_out"
    #: it came, or was still held, while the locker drained
    DRAINING = "draining"
    #: somebody cancelled its task while it was held
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPolicy:
    """What happens to events that cannot run at once.

    Raises:
        ConfigError: a setting is not one of its values.
    """

    mode: Literal["hold", "drop"] = "hold"
    max_pending: int | None = 100_000
    overflow: Literal["drop_new", "drop_old", "refuse"] = "refuse"
    hold_timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("hold", "drop"):
            raise ConfigError(f"mode must be 'hold' or 'drop', not {self.mode!r}")
        if self.overflow not in ("drop_new", "drop_old", "refuse"):
            raise ConfigError(f"overflow must be 'drop_new', 'drop_old' or 'refuse', not {self.overflow!r}")
        if self.max_pending is not None and (type(self.max_pending) is not int or self.max_pending < 0):
            raise ConfigError(f"max_pending must be a whole number >= 0, or None for no bound: {self.max_pending!r}")
        if self.hold_timeout_s is not None and not 0 < self.hold_timeout_s < math.inf:
            raise ConfigError(f"hold_timeout_s must be > 0, or None for no limit, not {self.hold_timeout_s!r}")

    def is_full(self, permits: Permits[Any]) -> bool:
        """Whether one more event would have to be held, and there is no room to hold it."""
        if self.max_pending is None or permits.pending < self.max_pending:
            return False
        return not permits.has_slot_for_next

    def refusal(self, permits: Permits[Any], *, draining: bool) -> DropReason | None:
        """Why a new event may not even wait; None when it may."""
        if draining:
            return DropReason.DRAINING
        if self.mode == "drop" and not permits.opened:
            return DropReason.NOT_READY
        if not self.is_full(permits) or (self.overflow == "drop_old" and permits.pending):
            return None
        return DropReason.REFUSED if self.overflow == "refuse" else DropReason.OVERFLOW
