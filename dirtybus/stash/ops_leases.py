"""The operations on leases."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from dirtybus.errors import StashError
from dirtybus.stash.op import StashReply
from dirtybus.stash.waiting_op import Topic, WaitingOp

if TYPE_CHECKING:
    from dirtybus.stash.state import StashState

__all__ = ["Acquire", "LeaseInfo", "Once", "Release", "Renew"]

_MOST_PLACES = 1000
_LONGEST_NAME = 1024
_LONGEST_TOKEN = 128


class Acquire(WaitingOp, frozen=True, tag="acquire"):
    """Take one of ``places`` under ``name`` for ``ttl_s``, waiting for it if need be.

    ``is_true``: it was taken, and ``version`` is the fencing number. Otherwise ``span_s`` is when a place is free at
    the latest, unless its holder renews it; a skip is counted.
    """

    name: str
    token: str
    ttl_s: float
    places: int = 1
    wait_s: float = 0.0

    @property
    def longest_wait_s(self) -> float:
        return self.wait_s

    @property
    def topic(self) -> Topic:
        return "lease", self.name

    @property
    def reach(self) -> int:
        return self.places

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply | None:
        _check(self.name, self.token, self.ttl_s)
        if not 1 <= self.places <= _MOST_PLACES:
            raise StashError(f"semaphore {self.name!r} has 1 to {_MOST_PLACES} places, not {self.places}")
        return state.leases.acquire(self.name, self.token, self.ttl_s, self.places, caller, now)

    def give_up(self, state: StashState, now: float) -> StashReply:
        state.leases.count_skip(self.name)
        return StashReply(is_true=False, span_s=state.leases.wait_s(self.name, self.places, now))


class _LeaseOp(WaitingOp, frozen=True):
    """One that never waits."""

    name: str

    @property
    def topic(self) -> Topic:
        return "", ""

    def give_up(self, state: StashState, now: float) -> StashReply:
        raise AssertionError("it never waits")


class Renew(_LeaseOp, frozen=True, tag="renew"):
    """Let a lease begin its time anew; ``is_true``: it was still held by this token."""

    token: str
    ttl_s: float

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply:
        _check(self.name, self.token, self.ttl_s)
        return state.leases.renew(self.name, self.token, self.ttl_s, caller, now)


class Release(_LeaseOp, frozen=True, tag="release"):
    """Give a lease back; ``is_true``: it was still held by this token. One not held yet is never given to it."""

    token: str

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply:
        _check(self.name, self.token, 1.0)
        state.leases.give_up(self.name, self.token)
        return state.leases.release(self.name, self.token, now)


class Once(_LeaseOp, frozen=True, tag="once"):
    """``is_true`` for the first who asks, and for nobody else until ``ttl_s`` have passed."""

    token: str
    ttl_s: float

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply:
        _check(self.name, self.token, self.ttl_s)
        return state.leases.once(self.name, self.token, self.ttl_s, now)


class LeaseInfo(_LeaseOp, frozen=True, tag="lease_info"):
    """Who holds a lease, and how often somebody was turned away."""

    writes = False

    def attempt(self, state: StashState, caller: Hashable, now: float) -> StashReply:
        return StashReply(info=state.leases.info(self.name, now))


def _check(name: str, token: str, ttl_s: float) -> None:
    if not 0 < len(name) <= _LONGEST_NAME:
        raise StashError(f"the name of a lease has 1 to {_LONGEST_NAME} characters, not {len(name)}")
    if not 0 < len(token) <= _LONGEST_TOKEN:
        raise StashError(f"the token of lease {name!r:.80} has 1 to {_LONGEST_TOKEN} characters, not {len(token)}")
    if not 0 < ttl_s < float("inf"):
        raise StashError(f"lease {name!r} for {ttl_s} s: it must be held for more than 0 s, and not for ever")
