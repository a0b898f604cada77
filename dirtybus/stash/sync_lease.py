"""A lease in the hands of code that may wait. Knows no table and no event loop."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from dirtybus.errors import DirtyError
from dirtybus.stash import watchdog
from dirtybus.stash.grip import Grip, Terms, new_token
from dirtybus.stash.holding import Holding
from dirtybus.stash.ops_leases import Release, Renew
from dirtybus.stash.port import SyncPort

__all__ = ["Lease"]


class Lease(Holding):
    """One place under a name, held from `acquire` (or ``with``) to `release`, or until it is lost.

    It is renewed every third of its time, for as long as this object and the thread that took it live. ``fencing``
    only grows from holder to holder: let what the lease guards refuse a smaller one. Leaving the block of a lease that
    was lost raises `LeaseLost`, unless another exception is on its way.
    """

    def __init__(self, port: SyncPort, terms: Terms, on_lost: Callable[[], object] | None = None) -> None:
        super().__init__(terms, on_lost)
        self._port = port

    def acquire(self) -> Self:
        """Take a place.

        Raises:
            LeaseHeld: there was none, for as long as this was to wait.
            StashError: it is held already, or cannot be called so.
        """
        self._check_free()
        token = new_token()
        try:
            self._grip = self._acquired(token)
        except BaseException:
            with suppress(DirtyError):  # then nobody is there who could have given it
                self._port.ask(Release(self._terms.name, token))
            raise
        if self._terms.renews or self._on_lost is not None:
            here = threading.current_thread()
            watchdog.watch(watchdog.Watch(self._grip, self._port, weakref.ref(self), here, self._on_lost))
        return self

    def renew(self) -> None:
        """Let its time begin anew, now. Raises LeaseLost, and what the port raises."""
        self.check()
        grip, asked_at = self._held(), time.monotonic()
        grip.note(self._port.ask(Renew(self._terms.name, grip.token, self._terms.ttl_s)), asked_at)
        self.check()

    def release(self) -> bool:
        """Give it back; return whether it was held until now. Raises what the port raises."""
        grip, self._grip = self._held(), None
        if not grip.is_ours:
            return False
        watchdog.unwatch(grip.token)
        was_lost = grip.is_lost
        return self._port.ask(Release(self._terms.name, grip.token)).is_true and not was_lost

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        grip = self._grip
        if grip is None:
            return  # it was released inside the block
        try:
            was_held = self.release()
        except DirtyError as exc:
            if kind is None:
                grip.lose(f"nobody can say whether it was held to the end: {exc}")
                raise grip.error() from exc
            return
        if kind is None and not was_held:
            grip.lose("its owner no longer knew it at the end")
            raise grip.error()

    def _acquired(self, token: str) -> Grip:
        terms = self._terms
        until = time.monotonic() + terms.wait_s
        while True:
            asked_at = time.monotonic()
            reply = self._port.ask(terms.acquire(token, until - asked_at))
            if reply.is_true and time.monotonic() - asked_at > terms.ttl_s / 3:
                fencing, asked_at = reply.version, time.monotonic()  # nobody here knows when the wait ended
                if self._port.ask(Renew(terms.name, token, terms.ttl_s)).is_true:
                    return Grip(terms, token, fencing, asked_at)
            elif reply.is_true:
                return Grip(terms, token, reply.version, asked_at)
            if time.monotonic() >= until:
                raise terms.held(reply)
