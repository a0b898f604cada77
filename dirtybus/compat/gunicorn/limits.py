"""How long a call to one of gunicorn's arbiters may take, as that arbiter is told of no deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dirtybus.errors import DirtyError, DirtyTimeoutError

__all__ = ["Countdown", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """``total_s`` bounds the whole call, ``idle_s`` the wait for each of its words; None or 0: no limit."""

    total_s: float | None
    idle_s: float | None = None


class Countdown:
    """The limits of one call from now on."""

    def __init__(self, limits: Limits, name: str) -> None:
        self._limits = limits
        self._name = name
        self._ends_at = time.monotonic() + limits.total_s if limits.total_s else None

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Turn a wait that took too long, in the block, into the error that names the limit."""
        try:
            yield
        except TimeoutError as exc:
            if isinstance(exc, DirtyError):
                raise
            raise self.exhausted() from None

    def wait_s(self) -> float | None:
        """Return how long to wait for the next word; None for ever.

        Raises:
            DirtyTimeoutError: the whole call is over its limit.
        """
        left_s = None if self._ends_at is None else self._ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise self.exhausted()
        waits = [wait for wait in (left_s, self._limits.idle_s or None) if wait is not None]
        return min(waits, default=None)

    def exhausted(self) -> DirtyTimeoutError:
        """Return the error for a wait that has ended, which says by whose limit."""
        total_s, idle_s = self._limits.total_s, self._limits.idle_s
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            return DirtyTimeoutError(
                f"{self._name}: no answer within the client's timeout of {total_s:g} s",
                total_s,
                "the client's timeout",
                "unanswered",
            )
        return DirtyTimeoutError(
            f"{self._name}: the stream sent nothing for {idle_s:g} s", idle_s, "the client's idle timeout", "stream"
        )
