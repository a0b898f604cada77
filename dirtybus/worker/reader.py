"""Who reads the link. Knows whose turn it is, not what a message is for.

As long as one thread does all the work, it reads for itself: when it is idle, when it waits for an answer, and, with a
glance, when an action asks whether it is cancelled. So a short call costs no thread switch. As soon as anybody
else may have to be served while that thread works (a second thread, a coroutine), a thread of its own takes over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from typing import Protocol

from dirtybus.errors import DirtyError
from dirtybus.protocol.messages import Message
from dirtybus.transport.blocking import BlockingLink

__all__ = ["Fact", "LinkReader"]


class Fact(Protocol):
    """What a thread waits for: a `threading.Event`, or what is cheaper to make."""

    def is_set(self) -> bool: ...
    def wait(self) -> object: ...


class LinkReader:
    """Take what comes on the link, one thread at a time.

    Args:
        link: the link to the owner.
        take: told of each message, by whichever thread reads.
        on_end: told once, in a thread of its own, when the owner is gone.
    """

    def __init__(self, link: BlockingLink, take: Callable[[Message], None], on_end: Callable[[], None]) -> None:
        self._link = link
        self._take = take
        self._on_end = on_end
        self._turn = threading.Lock()
        self._starting = threading.Lock()
        self._main = get_ident()
        self._has_ended = False
        self.has_thread = False

    def start_thread(self) -> None:
        """Let a thread of its own read from now on. May be called twice, by any thread."""
        with self._starting:
            if self.has_thread:
                return
            self.has_thread = True
            threading.Thread(target=self._read_on, name="dirtybus-link", daemon=True).start()

    def read(self) -> bool:
        """Wait for something to come and take it; False when another thread reads, or nothing will come any more."""
        if self._has_ended or not self._turn.acquire(blocking=False):
            return False
        try:
            return self._read_some()
        finally:
            self._turn.release()

    def glance(self) -> None:
        """Take what has come, without waiting. From a thread other than the main one, it calls for a reader."""
        if self.has_thread:
            return
        if get_ident() != self._main:
            self.start_thread()
        elif self._link.has_news():
            self.read()

    def wait_for(self, fact: Fact) -> None:
        """Wait until ``fact`` is set by something that is taken."""
        if get_ident() != self._main:
            self.start_thread()
        while not fact.is_set():
            if self.has_thread or not self.read():
                fact.wait()
                return

    def _read_on(self) -> None:
        with self._turn:  # the main thread may be in the middle of a read
            while self._read_some():
                pass

    def _read_some(self) -> bool:
        try:
            messages = self._link.receive_now()
        except DirtyError:
            messages = []  # a broken link ends like a closed one
        if not messages:
            self._end()
            return False
        try:
            for message in messages:
                self._take(message)
        except BaseException:
            self._end()  # a defect of ours: a worker that hears nothing must not stay
            raise
        return True

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            threading.Thread(target=self._on_end, name="dirtybus-end", daemon=True).start()
