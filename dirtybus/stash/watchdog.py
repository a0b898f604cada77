"""The thread that renews the leases of a process. Knows grips and ports, not what a lease guards."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from dirtybus.errors import DirtyError
from dirtybus.stash.grip import Grip
from dirtybus.stash.ops_leases import Renew
from dirtybus.stash.port import SyncPort

__all__ = ["Watch", "unwatch", "watch"]

_LINGER_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """One lease to be renewed, for as long as its object and the thread that took it live."""

    grip: Grip
    port: SyncPort
    holder: weakref.ref[object]
    thread: threading.Thread
    on_lost: Callable[[], object] | None


class _Watchdog:
    def __init__(self) -> None:
        self._news = threading.Condition(threading.Lock())
        self._watches: dict[str, Watch] = {}
        self._thread: threading.Thread | None = None
        self._wakes_at = 0.0

    def add(self, one: Watch) -> None:
        with self._news:
            self._watches[one.grip.token] = one
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dirtybus-leases", daemon=True)
                self._thread.start()
            elif one.grip.renew_at < self._wakes_at:
                self._news.notify()

    def remove(self, token: str) -> None:
        with self._news:
            self._watches.pop(token, None)
            if not self._watches and self._wakes_at > time.monotonic() + _LINGER_S:
                self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                now = time.monotonic()
                due = [one for one in self._watches.values() if _moment(one) <= now]
                if not due:
                    if not self._watches and self._wakes_at <= now and self._wakes_at:
                        self._thread = None
                        return
                    self._wakes_at = min(map(_moment, self._watches.values()), default=now + _LINGER_S)
                    self._news.wait(self._wakes_at - now)
                    continue
            for one in due:
                if not _renewed(one):
                    self.remove(one.grip.token)


def _moment(one: Watch) -> float:
    return one.grip.renew_at if one.grip.terms.renews else one.grip.expires_at


def _renewed(one: Watch) -> bool:
    """Renew; return whether the lease is to be watched any longer."""
    grip = one.grip
    if one.holder() is None or not one.thread.is_alive():
        return False
    if grip.terms.renews and not grip.is_lost:
        asked_at = time.monotonic()
        try:
            grip.note(one.port.ask(Renew(grip.terms.name, grip.token, grip.terms.ttl_s)), asked_at)
        except DirtyError:
            grip.retry_later()  # until its time is over
    if not grip.is_lost:
        return True
    if one.on_lost is not None:
        try:
            one.on_lost()
        except Exception:
            import logging  # workers load it only when there is something to say

            logging.getLogger("dirtybus.stash").exception("on_lost of lease %r failed", grip.terms.name)
    return False


_here = _Watchdog()


def watch(one: Watch) -> None:
    """Renew it from now on."""
    _here.add(one)


def unwatch(token: str) -> None:
    """Renew it no more. May be called twice."""
    _here.remove(token)


def _begin_anew() -> None:
    global _here  # a child has neither the thread nor the leases of its parent
    _here = _Watchdog()


os.register_at_fork(after_in_child=_begin_anew)
