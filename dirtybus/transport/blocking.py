"""The blocking end of a native link, for threads. One thread receives; any thread may send."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from threading import get_ident

from dirtybus.errors import DirtyConnectionError, LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.connection import CLOSED, NEED_DATA, Connection
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.messages import Message
from dirtybus.transport.posix import has_news

__all__ = ["BlockingLink"]

# a buffer of 128 KiB or more is mapped and unmapped by malloc at every read, which costs more than the read itself
_RECEIVE_BYTES = 64 * 1024
_MAX_PARTS = 64  # well under IOV_MAX everywhere


class BlockingLink:
    """Messages over a blocking socket.

    An exception that strikes in the middle of a message (Ctrl-C, a signal's timeout) closes the link: what followed
    would not be understood.

    Args:
        sock: a connected stream socket in blocking mode; the link owns it.
        connection: checks and translates what crosses the link.
    """

    def __init__(self, sock: socket.socket, connection: Connection) -> None:
        self._sock = sock
        self._connection = connection
        # the connection's books are kept under this lock, by senders and by the receiver
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        # threads that hold a lock here: code that breaks in there (a finalizer that prints) must not wait for itself
        self._inside: set[int] = set()
        self._ready: deque[Message] = deque()
        self._closed = False
        self._error: RemoteProtocolError | None = None
        self._poller = select.poll()  # select() fails on descriptors over 1023
        self._poller.register(sock, select.POLLIN)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def send(self, message: Message) -> None:
        """Send all of ``message``; blocks while the peer's buffer is full.

        Raises:
            DirtyConnectionError: the peer is gone.
            LocalProtocolError: it may not be sent now, or is too large, or this thread is in the middle of another
                one (a finalizer or signal handler broke in). Nothing was sent.
        """
        me = get_ident()
        if me in self._inside:
            raise LocalProtocolError("this thread is in the middle of another message; send this one afterwards")
        self._inside.add(me)
        try:
            with self._sending:
                with self._lock:
                    parts = self._connection.send(message)
                try:
                    if len(parts) == 1:
                        self._sock.sendall(parts[0])
                    else:
                        self._write(parts)
                except OSError as exc:
                    raise DirtyConnectionError(f"the link broke while sending: {exc.strerror or exc}") from exc
                except BaseException:
                    self._shut_down()
                    raise
        finally:
            self._inside.discard(me)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None when the peer has closed in order.

        Raises:
            TimeoutError: no whole message came within ``timeout_s`` seconds.
            DirtyConnectionError: the link broke.
            RemoteProtocolError: the peer broke the protocol; the messages before that were returned first.
        """
        deadline_at = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ready:
            if self._is_over():
                return None
            if not self._is_readable(deadline_at):
                raise TimeoutError(f"nothing came within {timeout_s} s")
            self._receive_some()
        return self._ready.popleft()

    def receive_now(self) -> list[Message]:
        """Block until something comes, and return all messages that are complete; empty when the peer closed.

        Raises as `receive`.
        """
        ready = self._ready
        while not (ready or self._is_over()):
            self._receive_some()
        if len(ready) == 1:
            return [ready.popleft()]
        messages = list(ready)
        ready.clear()
        return messages

    def has_news(self) -> bool:
        """Whether a message is at hand, or bytes or the peer's end have come; without waiting."""
        return bool(self._ready) or has_news(self._sock)

    def close(self) -> None:
        """Close the socket. May be called twice, from any thread: a blocked `receive` then returns or raises."""
        self._shut_down()
        self._sock.close()

    def detach(self) -> None:
        """Close our descriptor only: the connection belongs to the process that we were forked from."""
        self._sock.close()

    def _shut_down(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            self._closed = True  # the peer was gone already

    def _is_over(self) -> bool:
        if self._error is not None:
            raise self._error
        return self._closed

    def _is_readable(self, deadline_at: float | None) -> bool:
        # also without a deadline: an exception that strikes in here, unlike in a read, has taken nothing
        left_ms = None if deadline_at is None else max(0.0, deadline_at - time.monotonic()) * 1000
        return bool(self._poller.poll(left_ms))

    def _receive_some(self) -> None:
        me = get_ident()
        try:
            received = self._sock.recv(_RECEIVE_BYTES)
            self._inside.add(me)
            with self._lock:
                message = self._connection.receive_sole(received)
                if message is not None:
                    self._ready.append(message)
                else:
                    self._take(received)
        except RemoteProtocolError as exc:
            self._error = exc
        except OSError as exc:
            raise DirtyConnectionError(f"the link broke: {exc.strerror or exc}") from exc
        except BaseException:
            self._shut_down()
            raise
        finally:
            self._inside.discard(me)

    def _take(self, received: bytes) -> None:
        self._connection.receive_data(received)
        while (event := self._connection.next_event()) is not NEED_DATA:
            if event is CLOSED:
                self._closed = True
                return
            self._ready.append(event)

    def _write(self, parts: list[Buffer]) -> None:
        rest = [memoryview(part).cast("B") for part in parts if len(part)]
        while rest:
            sent = self._sock.sendmsg(rest[:_MAX_PARTS])
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if sent:
                rest[0] = rest[0][sent:]
