"""What a holder knows of its lease, by its own clock. Knows no port and no thread."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from dirtybus.errors import LeaseHeld, LeaseLost, StashError
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_leases import Acquire
from dirtybus.stash.spans import Span, seconds

__all__ = ["Grip", "Terms", "new_token"]

#: So long one question waits at the owner; then it is asked anew.
_LONGEST_SLICE_S = 3600.0


def new_token() -> str:
    """Return a token that nobody can guess. Not of `secrets`, which would load `random` into every worker."""
    return os.urandom(16).hex()


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for."""

    name: str
    ttl_s: float
    places: int
    wait_s: float
    renews: bool

    @classmethod
    def of(cls, name: str, ttl: Span, places: int, wait: Span | None, *, waits: bool, renews: bool) -> Terms:
        """Read what a user gave; ``waits`` is what None for ``wait`` means. Raises StashError."""
        if not isinstance(name, str):
            raise StashError(f"the name of a lease is a str, not {name!r:.80} of type {type(name).__name__}")
        if wait is None:
            wait_s = float("inf") if waits else 0.0
        else:
            wait_s = 0.0 if type(wait) in (int, float) and wait == 0 else seconds(wait, "wait")
        return cls(name, seconds(ttl, "ttl"), places, wait_s, renews)

    def acquire(self, token: str, left_s: float) -> Acquire:
        """Return the question for a place."""
        return Acquire(self.name, token, self.ttl_s, self.places, min(max(left_s, 0.0), _LONGEST_SLICE_S))

    def held(self, reply: StashReply) -> LeaseHeld:
        """Return the error for one who was turned away."""
        free = "soon" if reply.span_s is None else f"in at most {reply.span_s:.3g} s, unless its holder renews it"
        what = "lease" if self.places == 1 else f"semaphore of {self.places} places"
        return LeaseHeld(
            f"{what} {self.name!r} is held by somebody else, and free {free}; skip the work, or wait for it with wait=",
            {"name": self.name, "places": self.places, "free_in_s": reply.span_s},
        )


class Grip:
    """One lease while it is held. Never believes in it longer than the owner: it counts from before it asked."""

    def __init__(self, terms: Terms, token: str, fencing: int, asked_at: float) -> None:
        self.terms = terms
        self.token = token
        self.fencing = fencing
        self.expires_at = asked_at + terms.ttl_s
        self.renew_at = asked_at + terms.ttl_s / 3
        self.why_lost: str | None = None
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process took it; a forked child must not renew or release what its parent holds."""
        return self._pid == os.getpid()

    @property
    def is_lost(self) -> bool:
        """Whether it must no longer be relied on; once True, always."""
        if self.why_lost is None and time.monotonic() >= self.expires_at:
            self.lose(f"it was not renewed for {self.terms.ttl_s:g} s")
        return self.why_lost is not None or not self.is_ours

    def lose(self, why: str) -> None:
        """It is lost; the first reason counts."""
        if self.why_lost is None:
            self.why_lost = why

    def note(self, reply: StashReply, asked_at: float) -> None:
        """Take the answer to a renewal that was asked for at ``asked_at``."""
        if not reply.is_true:
            self.lose("its owner no longer knows it")
        elif self.why_lost is None:
            self.expires_at = asked_at + self.terms.ttl_s
            self.renew_at = asked_at + self.terms.ttl_s / 3

    def retry_later(self) -> None:
        """The owner was not reached: ask again soon, and at the end of its time at the latest."""
        pause_s = max(0.01, min(self.terms.ttl_s / 10, 1.0))
        self.renew_at = min(time.monotonic() + pause_s, self.expires_at)

    def error(self) -> LeaseLost:
        """Return the error for a holder that goes on."""
        why = self.why_lost or ("it is held by the process this one was forked from" if not self.is_ours else "")
        return LeaseLost(
            f"lease {self.terms.name!r} (fencing number {self.fencing}) is lost: {why}; stop what it guards, as "
            f"somebody else may hold it",
            {"name": self.terms.name, "fencing": self.fencing},
        )
