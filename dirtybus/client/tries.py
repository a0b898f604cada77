"""The tries of one call: whether and when it is sent again. Sends nothing, waits for nothing, reads no clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from dirtybus.client.patience import Patience
from dirtybus.errors import (
    AppBroken,
    DirtyConnectionError,
    DirtyError,
    DirtyTimeoutError,
    Draining,
    QueueFull,
    Unavailable,
)

__all__ = ["Tries"]

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
#: a full queue is asked again more and more seldom, so that those who wait do not become the load
_LONGEST_QUEUE_PAUSE_S: Final = 10.0
#: a call that was under way at the end of so many owners may be what ended them
_MOST_LOSSES: Final = 3
_GROWTH: Final = 2.0


class Tries:
    """Decide after each failed try of a call: again, and when, or not.

    What certainly did not begin may be sent again whatever it does; what may have begun only where ``may_repeat``
    says that running it twice does no harm.

    Args:
        app: its app.
        action: its action.
        timeout_s: its deadline as a span from ``now``; None and 0 for none that is known here.
        reconnect_s: for how long in a row an owner that is gone or leaving is tried again; 0: not at all.
        now: the moment, in seconds of a clock that never goes back.
        jitter: gives numbers from 0 to 1 that spread the tries of many clients.
        priority: its rank among those that wait; None for the action's own.
    """

    def __init__(
        self,
        app: str,
        action: str,
        timeout_s: float | None,
        reconnect_s: float,
        now: float,
        jitter: Callable[[], float] = random.random,
        *,
        priority: int | None = None,
    ) -> None:
        self.app = app
        self.action = action
        self.priority = priority
        self._timeout_s = timeout_s
        self._reconnect_s = reconnect_s
        self._deadline_at = now + timeout_s if timeout_s else None
        self._jitter = jitter
        self._sends = 0
        self._last: DirtyError | None = None
        self._absent_since: float | None = None
        self._absent_pause_s = _FIRST_PAUSE_S
        self._queue_waits = 0
        self._losses = 0
        #: chunks have reached the caller: once more would repeat them
        self.has_given = False
        #: it ended without anybody knowing whether it ran
        self.is_unknown = False

    @property
    def resent(self) -> int:
        """How often the call was sent again."""
        return max(0, self._sends - 1)

    def begin(self, now: float) -> Patience:
        """Note that the call is sent now, and return how long it may take.

        Raises:
            DirtyTimeoutError: its deadline passed while it was tried again and again.
        """
        left_s = self._left_s(now)
        self._sends += 1
        return Patience(self._timeout_s if left_s is None else left_s, self._timeout_s)

    def pause_s(self, error: DirtyError, now: float, *, may_repeat: bool) -> float:
        """Return how long to wait before the next try.

        Args:
            error: how the try failed.
            now: the moment.
            may_repeat: whether a call that may have begun may be sent again.

        Raises:
            DirtyError: there is no next try; ``error``, saying how often it was sent again, or what it means here.
        """
        if isinstance(error, QueueFull) and error.details.get("wait"):
            pause_s = self._queue_pause_s(error)
        else:
            pause_s = self._absence_pause_s(error, now, may_repeat=may_repeat)
        self._last = error
        left_s = self._left_s(now)
        return pause_s if left_s is None else min(pause_s, left_s)

    def _queue_pause_s(self, error: QueueFull) -> float:
        hint_s = error.retry_after_s or 1.0
        pause_s = min(hint_s * _GROWTH**self._queue_waits, max(hint_s, _LONGEST_QUEUE_PAUSE_S))
        self._queue_waits = min(self._queue_waits + 1, 30)
        self._absent_since = None  # somebody answers
        return pause_s * (0.75 + 0.5 * self._jitter())

    def _absence_pause_s(self, error: DirtyError, now: float, *, may_repeat: bool) -> float:
        may_have_begun = self.has_given or _may_have_begun(error)
        if not self._reconnect_s or not _is_passing(error):
            raise self._final(error, may_have_begun=may_have_begun)
        if may_have_begun:
            self._losses += 1
            if self.has_given or not may_repeat or self._losses >= _MOST_LOSSES:
                raise self._final(error, may_have_begun=True)
            self._absent_since = None  # there was an owner until now
        if self._absent_since is None:
            self._absent_since, self._absent_pause_s = now, _FIRST_PAUSE_S
        left_s = self._absent_since + self._reconnect_s - now
        if left_s <= 0:
            raise self._final(error, may_have_begun=may_have_begun)
        pause_s = self._absent_pause_s
        self._absent_pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
        if isinstance(error, Unavailable) and not isinstance(error, Draining):
            pause_s = max(pause_s, error.retry_after_s or 0.0)
        return min(pause_s * (0.75 + 0.5 * self._jitter()), left_s)

    def _left_s(self, now: float) -> float | None:
        """Return what is left of the deadline; a first try takes it as it was given, and the arbiter judges it."""
        if self._deadline_at is None or self._last is None:
            return None
        left_s = self._deadline_at - now
        if left_s > 0:
            return left_s
        is_queue = isinstance(self._last, QueueFull)
        raise DirtyTimeoutError(
            f"{self.app} {self.action}: not taken within {self._timeout_s:g} s (the caller's timeout; sent again "
            f"{self.resent} times); the last answer was: {self._last}",
            self._timeout_s,
            "the caller's timeout",
            "queued" if is_queue else "unreached",
        ) from self._last

    def _final(self, error: DirtyError, *, may_have_begun: bool) -> DirtyError:
        told = error
        self.is_unknown = may_have_begun
        if may_have_begun and isinstance(error, DirtyConnectionError):
            text = f"{error.message}; {self.app} {self.action} may or may not have run{self._why_once()}"
            told = DirtyConnectionError(text, error.socket_path)
        if self.resent:
            told.details["resent"] = self.resent
        return told

    def _why_once(self) -> str:
        if not self._reconnect_s:
            return ""
        if self._losses >= _MOST_LOSSES:
            return f", and is not sent again: it was under way when {self._losses} owners ended"
        if self.has_given:
            return ", and is not sent again: chunks of it had arrived"
        return ", and is not sent again: its action is not declared idempotent"


def _is_passing(error: DirtyError) -> bool:
    """Whether it makes sense to try again soon."""
    if isinstance(error, QueueFull | AppBroken):
        return False  # whoever refuses so wants less work, not the same once more
    if isinstance(error, Draining | DirtyConnectionError):
        return True
    return isinstance(error, Unavailable) and error.retry_after_s is not None


def _may_have_begun(error: DirtyError) -> bool:
    if isinstance(error, DirtyConnectionError):
        return error.started is not False
    return bool(error.details.get("started", False))
