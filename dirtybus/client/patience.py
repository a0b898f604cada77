"""How long a client waits: the call's own deadline, which the arbiter keeps, and a margin in case it does not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dirtybus.errors import DirtyTimeoutError

__all__ = ["Patience"]

_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """``timeout_s`` travels with the call (None: the app's own limit applies; 0: none at all).

    Where the call is sent again, it is what remains of ``given_s``, which the caller gave.
    """

    timeout_s: float | None
    given_s: float | None = None

    @property
    def wait_s(self) -> float | None:
        """How long the client itself waits: a little longer, so that the arbiter's answer says what happened."""
        return self.timeout_s + _MARGIN_S if self.timeout_s else None

    def begin(self, idle_timeout_s: float | None) -> Waiting:
        """Start to wait, by the clock of this process."""
        deadline_at = None if self.wait_s is None else time.monotonic() + self.wait_s
        return Waiting(self, deadline_at, idle_timeout_s)

    def exhausted(self, app: str, action: str) -> DirtyTimeoutError:
        """Return the error for an arbiter that did not even say that the deadline had passed."""
        given_s = self.given_s or self.timeout_s
        return DirtyTimeoutError(
            f"{app} {action}: the arbiter said nothing within the client's timeout of {given_s:g} s and "
            f"{_MARGIN_S:g} s more; is it stopped or overloaded?",
            given_s,
            "the client's timeout",
            "unanswered",
        )


@dataclass(slots=True)
class Waiting:
    """One call being waited for: its deadline as a moment, and how long each single wait may take."""

    patience: Patience
    deadline_at: float | None
    idle_timeout_s: float | None

    def next_limit_at(self) -> float | None:
        """Return when the next wait ends at the latest."""
        if self.idle_timeout_s is None:
            return self.deadline_at
        idle_at = time.monotonic() + self.idle_timeout_s
        return idle_at if self.deadline_at is None else min(idle_at, self.deadline_at)

    def exhausted(self, app: str, action: str) -> DirtyTimeoutError:
        """Return the error for the limit that passed."""
        if self.deadline_at is not None and time.monotonic() >= self.deadline_at:
            return self.patience.exhausted(app, action)
        idle = self.idle_timeout_s
        return DirtyTimeoutError(
            f"{app} {action}: the stream sent nothing for {idle} s", idle, "stream_idle_timeout", "stream"
        )
