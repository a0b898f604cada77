"""A connection shared by threads. There is no reader thread: whoever waits reads, for the others too.

One waiting thread at a time leads: it reads the socket and hands each message to the thread it is for. When its own
has come, it passes the lead to another that still waits. So a lone caller pays no thread switch, and many callers
never read each other's answers.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque

from dirtybus.errors import DirtyConnectionError, DirtyError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.messages import Answer, Drain, Failure, Head, Hello, Message, Refusal, Reply
from dirtybus.transport.blocking import BlockingLink
from dirtybus.transport.listener import connect
from dirtybus.transport.posix import has_news

__all__ = ["SyncChannel", "Waiter"]

_MAX_PAYLOAD_BYTES = 2**32 - 1  # the arbiter's limit is the one that counts


class Waiter:
    """One call or question and the messages that came for it."""

    __slots__ = ("_wake", "id", "is_waiting", "messages")

    def __init__(self, ask_id: int) -> None:
        self.id = ask_id
        self.messages: deque[Message] = deque()
        self.is_waiting = False
        self._wake = threading.Semaphore(0)

    def notify(self) -> None:
        """Let the waiting thread look: a message came, or the lead is free."""
        self._wake.release()

    def sleep(self, timeout_s: float | None) -> None:
        """Wait for `notify`, at most so long."""
        self._wake.acquire(timeout=timeout_s)


class SyncChannel:
    """Send messages and wait for those that answer them, from any thread.

    Args:
        path: the arbiter's socket.
        connect_timeout_s: how long connecting may take.

    Raises:
        DirtyConnectionError: nobody listens there.
    """

    def __init__(self, path: str, connect_timeout_s: float) -> None:
        self.path = path
        self.pid = os.getpid()
        self._sock = connect(path, timeout_s=connect_timeout_s)
        self._link = BlockingLink(self._sock, Connection(Side.CALLER, _MAX_PAYLOAD_BYTES))
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._waiters: dict[int, Waiter] = {}
        self._is_led = False
        self._lost: DirtyConnectionError | None = None
        self.late = 0

    @property
    def is_lost(self) -> bool:
        """Whether the arbiter is known to be gone."""
        return self._lost is not None

    @property
    def is_usable(self) -> bool:
        """Whether a new call may go this way: same process, and the arbiter has not hung up."""
        if self.is_lost or self.pid != os.getpid():
            return False
        with self._lock:
            if self._waiters or self._is_led:
                return True  # somebody reads, and will see it
            self._is_led = True
        # while nobody reads, nobody would see that the arbiter left: look before work is entrusted to it
        while has_news(self._sock) and not self.is_lost:
            self._lead(0)
        with self._lock:
            self._is_led = False
        return not self.is_lost

    def start(self, head: Head, body: list[Buffer] | tuple[Buffer, ...] = ()) -> Waiter:
        """Send a call or a question; its answers come to the waiter that is returned.

        Raises:
            DirtyConnectionError: the arbiter is gone; ``started`` work there may or may not have begun.
        """
        waiter = Waiter(next(self._ids))
        with self._lock:
            self._waiters[waiter.id] = waiter
        try:
            self.send(Message(head, waiter.id, body))
        except BaseException:
            self.forget(waiter)
            raise
        return waiter

    def send(self, message: Message) -> None:
        """Send one message. Raises `DirtyConnectionError` when the arbiter is gone."""
        if self._lost is not None:
            raise self._lost
        try:
            self._link.send(message)
        except DirtyConnectionError as exc:
            self._lose(exc)
            raise

    def next(self, waiter: Waiter, deadline_at: float | None) -> Message:
        """Return the next message for ``waiter``.

        Raises:
            TimeoutError: none came until ``deadline_at`` (of `time.monotonic`).
            DirtyConnectionError: the arbiter went away before.
        """
        while True:
            left = None if deadline_at is None else max(0.0, deadline_at - time.monotonic())
            with self._lock:
                if waiter.messages or self._lost is not None or left == 0:
                    break
                leads = not self._is_led
                self._is_led = True
                waiter.is_waiting = not leads
            if leads:
                self._lead(left)
            else:
                waiter.sleep(left)
        return self._leave(waiter)

    def forget(self, waiter: Waiter) -> None:
        """Nobody waits for these answers any more; what still comes is dropped and counted."""
        with self._lock:
            self._waiters.pop(waiter.id, None)

    def close(self) -> None:
        """Hang up. Threads that wait get `DirtyConnectionError`. May be called twice."""
        self._lose(DirtyConnectionError("the client was closed", self.path))
        self._link.close()

    def discard(self) -> None:
        """Give up a channel that is not usable: hang up, or leave it to the process that we were forked from."""
        if self.pid == os.getpid():
            self.close()
        else:
            self._link.detach()

    # --- leading ---

    def _lead(self, timeout_s: float | None) -> None:
        """Read until something has come, for whomever it is."""
        try:
            message = self._link.receive(timeout_s)
            if message is None:
                raise DirtyConnectionError("the arbiter closed the connection", self.path)
            self._hand_out(message)
        except TimeoutError:
            pass  # the waiter's own deadline: its loop looks at the clock
        except DirtyError as exc:
            self._lose(exc if isinstance(exc, DirtyConnectionError) else DirtyConnectionError(str(exc), self.path))
        finally:
            with self._lock:
                self._is_led = False

    def _leave(self, waiter: Waiter) -> Message:
        """Take what came, and see to it that somebody leads while anybody waits."""
        with self._lock:
            waiter.is_waiting = False
            heir = None
            if not self._is_led:
                heir = next((other for other in self._waiters.values() if other.is_waiting), None)
            message = waiter.messages.popleft() if waiter.messages else None
        if heir is not None:
            heir.notify()
        if message is not None:
            return message
        if self._lost is not None:
            raise DirtyConnectionError(self._lost.message, self.path)
        raise TimeoutError

    def _hand_out(self, message: Message) -> None:
        if isinstance(message.head, Hello | Drain):
            return
        with self._lock:
            waiter = self._waiters.get(message.id)
            if waiter is None:
                self.late += isinstance(message.head, Reply | Failure | Answer | Refusal)
                return
            waiter.messages.append(message)
        waiter.notify()

    def _lose(self, exc: DirtyConnectionError) -> None:
        with self._lock:
            if self._lost is None:
                self._lost = exc
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.notify()
