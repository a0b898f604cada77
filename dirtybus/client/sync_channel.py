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

from dirtybus.client.acquaintance import Acquaintance
from dirtybus.errors import DirtyConnectionError, DirtyError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import (
    Answer,
    Drain,
    End,
    Failure,
    Goodbye,
    Head,
    Hello,
    Refusal,
    Reply,
    StashAnswer,
)
from dirtybus.protocol.messages import Message
from dirtybus.transport.blocking import BlockingLink
from dirtybus.transport.listener import connect

__all__ = ["SyncChannel", "Waiter"]

_MAX_PAYLOAD_BYTES = 2**32 - 1  # the arbiter's limit is the one that counts


class Waiter:
    """One call or question and the messages that came for it."""

    __slots__ = ("_wake", "id", "is_sent", "is_waiting", "messages")

    def __init__(self, ask_id: int) -> None:
        self.id = ask_id
        self.messages: deque[Message] = deque()
        self.is_waiting = False
        self.is_sent = True
        # made when it is to be slept on: the only thread of a channel leads, and never sleeps
        self._wake: threading.Semaphore | None = None

    def prepare(self) -> None:
        """Say, under the channel's lock, that `sleep` follows: each `notify` from now on ends it."""
        self.is_waiting = True
        if self._wake is None:
            self._wake = threading.Semaphore(0)

    def notify(self) -> None:
        """Let the waiting thread look: a message came, or the lead is free."""
        if self._wake is not None:
            self._wake.release()

    def sleep(self, timeout_s: float | None) -> None:
        """Wait for `notify`, at most so long."""
        assert self._wake is not None
        self._wake.acquire(timeout=timeout_s)


class SyncChannel:
    """Send messages and wait for those that answer them, from any thread.

    Args:
        path: the arbiter's socket.
        connect_timeout_s: how long connecting may take.
        greets: whether to say hello first, so that the arbiter says which actions may be sent again.

    Raises:
        DirtyConnectionError: nobody listens there.
    """

    def __init__(self, path: str, connect_timeout_s: float, *, greets: bool = False) -> None:
        self.path = path
        self.pid = os.getpid()
        self._sock = connect(path, timeout_s=connect_timeout_s)
        self._link = BlockingLink(self._sock, Connection(Side.CALLER, _MAX_PAYLOAD_BYTES))
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._waiters: dict[int, Waiter] = {}
        self._is_led = False
        self._lost: str | None = None
        self.peer = Acquaintance(path, greets=greets)
        self.late = 0
        if greets:
            self._say(Message(self.peer.hello()))

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
        try:
            while self._link.has_news() and not self.is_lost:
                self._read(0)
        finally:
            self._hand_over_lead()
        return not self.is_lost

    def start(self, head: Head, body: list[Buffer] | tuple[Buffer, ...] = ()) -> Waiter:
        """Send a call or a question; its answers come to the waiter that is returned, the arbiter's end too."""
        waiter = Waiter(next(self._ids))
        with self._lock:
            self._waiters[waiter.id] = waiter
        try:
            waiter.is_sent = self._say(Message(head, waiter.id, body))
        except BaseException:
            self.forget(waiter)
            raise
        return waiter

    def mention(self, head: Head, waiter: Waiter) -> None:
        """Say something about a call that was started. When the arbiter is gone, `next` tells."""
        self._say(Message(head, waiter.id))

    def _say(self, message: Message) -> bool:
        """Send, or return False when the arbiter is gone: whoever reads finds that out, after what it said before."""
        if self.is_lost:
            return False
        try:
            self._link.send(message)
        except DirtyConnectionError:
            return False
        return True

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
                if leads:
                    waiter.is_waiting = False
                else:
                    waiter.prepare()
            if leads:
                try:
                    self._read(left)
                except BaseException:
                    self._hand_over_lead()
                    raise
                with self._lock:
                    self._is_led = False
            else:
                waiter.sleep(left)
        return self._leave(waiter)

    def forget(self, waiter: Waiter) -> None:
        """Nobody waits for these answers any more; what still comes is dropped and counted."""
        with self._lock:
            self._waiters.pop(waiter.id, None)

    def close(self) -> None:
        """Hang up. Threads that wait get `DirtyConnectionError`. May be called twice."""
        self.peer.is_left = not self.is_lost  # those who wait may not have learned of that yet
        self._lose("the client was closed")
        self._link.close()

    def discard(self) -> None:
        """Give up a channel that is not usable: hang up, or leave it to the process that we were forked from."""
        if self.pid == os.getpid():
            self.close()
        else:
            self._link.detach()

    # --- leading ---

    def _read(self, timeout_s: float | None) -> None:
        """Read, as the one that leads, until something has come, for whomever it is."""
        try:
            message = self._link.receive(timeout_s)
        except TimeoutError:
            return  # the waiter's own deadline: its loop looks at the clock
        except DirtyError as exc:
            self._lose(str(exc))
            return
        if message is None:
            self._lose("the arbiter closed the connection")
        else:
            self._hand_out(message)

    def _hand_over_lead(self) -> None:
        """Stop leading outside `next`, which would look for an heir itself."""
        with self._lock:
            self._is_led = False
            heir = next((other for other in self._waiters.values() if other.is_waiting), None)
        if heir is not None:
            heir.notify()

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
            raise self.peer.loss(self._lost, was_sent=waiter.is_sent)
        raise TimeoutError

    def _hand_out(self, message: Message) -> None:
        if isinstance(message.head, Hello | Drain | Goodbye):
            self.peer.note(message.head)
            return
        with self._lock:
            waiter = self._waiters.get(message.id)
            if waiter is None:
                self.late += isinstance(message.head, Reply | Failure | End | Answer | StashAnswer | Refusal)
                return
            waiter.messages.append(message)
        waiter.notify()

    def _lose(self, why: str) -> None:
        with self._lock:
            if self._lost is None:
                self._lost = why
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.notify()
