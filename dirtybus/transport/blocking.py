"""The blocking end of a native link, for threads. One thread receives; any thread may send."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque

from dirtybus.errors import DirtyConnectionError
from dirtybus.protocol.connection import CLOSED, NEED_DATA, Connection
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.messages import Message

__all__ = ["BlockingLink"]

_RECEIVE_BYTES = 256 * 1024
_MAX_PARTS = 64  # well under IOV_MAX everywhere


class BlockingLink:
    """Messages over a blocking socket.

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
        self._ready: deque[Message] = deque()
        self._closed = False

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._sock.fileno()

    def send(self, message: Message) -> None:
        """Send all of ``message``; blocks while the peer's buffer is full.

        Raises:
            DirtyConnectionError: the peer is gone.
            LocalProtocolError: it may not be sent now, or is too large. Nothing was sent.
        """
        with self._sending:
            with self._lock:
                parts = self._connection.send(message)
            try:
                self._send_parts(parts)
            except OSError as exc:
                raise DirtyConnectionError(f"the link broke while sending: {exc.strerror or exc}") from exc

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None when the peer has closed in order.

        Raises:
            TimeoutError: nothing came within ``timeout_s`` seconds.
            DirtyConnectionError: the link broke.
            RemoteProtocolError: the peer broke the protocol.
        """
        while not self._ready:
            if self._closed:
                return None
            if timeout_s is not None and not self._is_readable(timeout_s):
                raise TimeoutError(f"nothing came within {timeout_s} s")
            self._receive_some()
        return self._ready.popleft()

    def receive_now(self) -> list[Message]:
        """Block until something comes, and return all messages that are complete; empty when the peer closed."""
        while not self._ready and not self._closed:
            self._receive_some()
        messages = list(self._ready)
        self._ready.clear()
        return messages

    def close(self) -> None:
        """Close the socket. May be called twice, from any thread: a blocked `receive` then returns or raises."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            self._closed = True  # the peer was gone already
        self._sock.close()

    def _is_readable(self, timeout_s: float) -> bool:
        poller = select.poll()  # select() fails on descriptors over 1023
        poller.register(self._sock, select.POLLIN)
        return bool(poller.poll(max(0.0, timeout_s) * 1000))

    def _receive_some(self) -> None:
        try:
            received = self._sock.recv(_RECEIVE_BYTES)
        except OSError as exc:
            raise DirtyConnectionError(f"the link broke: {exc.strerror or exc}") from exc
        with self._lock:
            self._connection.receive_data(received)
            while (event := self._connection.next_event()) is not NEED_DATA:
                if event is CLOSED:
                    self._closed = True
                    return
                self._ready.append(event)

    def _send_parts(self, parts: list[Buffer]) -> None:
        if len(parts) == 1:
            return self._sock.sendall(parts[0])
        rest = [memoryview(part).cast("B") for part in parts if len(part)]
        while rest:
            sent = self._sock.sendmsg(rest[:_MAX_PARTS])
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if sent:
                rest[0] = rest[0][sent:]
        return None
