"""How leases are asked for, by threads and by tasks. Knows only ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dirtybus.errors import StashError
from dirtybus.stash.async_lease import AsyncLease
from dirtybus.stash.grip import Terms, new_token
from dirtybus.stash.ops_leases import LeaseInfo, Once
from dirtybus.stash.port import AsyncPort, SyncPort
from dirtybus.stash.spans import Span, seconds
from dirtybus.stash.sync_lease import Lease

__all__ = ["AsyncLeasing", "Leasing"]

OnLost = Callable[[], object]


class Leasing:
    """The functions of `Stash` that say who may do something."""

    _port: SyncPort

    def lease(
        self,
        name: str,
        ttl: Span = 30.0,
        *,
        wait: Span | None = None,
        renew: bool = True,
        on_lost: OnLost | None = None,
    ) -> Lease:
        """Return a lease to take, ``with stash.lease(name):``; without ``wait``, `LeaseHeld` at once if it is held.

        Args:
            name: what it is for; the same for all who must not do it at the same time.
            ttl: how long it is held if its holder is never heard of again.
            wait: how long to wait for it.
            renew: renew it while its holder lives.
            on_lost: called when it is lost, in a thread of ours; it must not wait.
        """
        return Lease(self._port, Terms.of(name, ttl, 1, wait, waits=False, renews=renew), on_lost)

    def lock(self, name: str, ttl: Span = 30.0, *, wait: Span | None = None, on_lost: OnLost | None = None) -> Lease:
        """As `lease`, but wait for as long as it takes, or ``wait``. Who came first is served first."""
        return Lease(self._port, Terms.of(name, ttl, 1, wait, waits=True, renews=True), on_lost)

    def semaphore(
        self, name: str, places: int, ttl: Span = 30.0, *, wait: Span | None = None, on_lost: OnLost | None = None
    ) -> Lease:
        """As `lock`, for so many holders at the same time; give the same number everywhere."""
        return Lease(self._port, Terms.of(name, ttl, places, wait, waits=True, renews=True), on_lost)

    def once(self, name: str, ttl: Span) -> bool:
        """Return True to the first who asks under this name, and False to all others until ``ttl`` has passed."""
        return self._port.ask(_once(name, ttl)).is_true

    def lease_info(self, name: str) -> dict[str, Any]:
        """Return ``holders``, each with ``fencing`` and ``expires_in_s``, and how many were ``skipped``."""
        return dict(self._port.ask(_info(name)).info or {})


class AsyncLeasing:
    """The same for `AsyncStash`. ``cancel_on_lost`` cancels the block of a lease that is lost."""

    _port: AsyncPort

    def lease(
        self,
        name: str,
        ttl: Span = 30.0,
        *,
        wait: Span | None = None,
        renew: bool = True,
        on_lost: OnLost | None = None,
        cancel_on_lost: bool = False,
    ) -> AsyncLease:
        terms = Terms.of(name, ttl, 1, wait, waits=False, renews=renew)
        return AsyncLease(self._port, terms, on_lost, cancel_on_lost=cancel_on_lost)

    def lock(
        self,
        name: str,
        ttl: Span = 30.0,
        *,
        wait: Span | None = None,
        on_lost: OnLost | None = None,
        cancel_on_lost: bool = False,
    ) -> AsyncLease:
        terms = Terms.of(name, ttl, 1, wait, waits=True, renews=True)
        return AsyncLease(self._port, terms, on_lost, cancel_on_lost=cancel_on_lost)

    def semaphore(
        self,
        name: str,
        places: int,
        ttl: Span = 30.0,
        *,
        wait: Span | None = None,
        on_lost: OnLost | None = None,
        cancel_on_lost: bool = False,
    ) -> AsyncLease:
        terms = Terms.of(name, ttl, places, wait, waits=True, renews=True)
        return AsyncLease(self._port, terms, on_lost, cancel_on_lost=cancel_on_lost)

    async def once(self, name: str, ttl: Span) -> bool:
        return (await self._port.ask(_once(name, ttl))).is_true

    async def lease_info(self, name: str) -> dict[str, Any]:
        return dict((await self._port.ask(_info(name))).info or {})


def _once(name: str, ttl: Span) -> Once:
    return Once(_text(name), new_token(), seconds(ttl, "ttl"))


def _info(name: str) -> LeaseInfo:
    return LeaseInfo(_text(name))


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise StashError(f"the name of a lease is a str, not {name!r:.80} of type {type(name).__name__}")
    return name
