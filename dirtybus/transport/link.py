"""The asyncio end of a native link. Knows sockets and the connection, not what a message is for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from dirtybus.errors import RemoteProtocolError
from dirtybus.protocol.connection import CLOSED, NEED_DATA, Connection
from dirtybus.protocol.messages import Message

__all__ = ["Link", "open_link"]

# asyncio asks for 256 KiB at every read, which malloc maps and unmaps each time: dearer than the read itself
_RECEIVE_BYTES = 64 * 1024


class Link(asyncio.Protocol):
    """Messages in by callback, messages out by `send`, which never blocks.

    Args:
        connection: checks and translates what crosses the link.
        on_message: told of each message, in order, in the loop's thread.
        on_lost: told once when the link is gone; None when the peer closed it in order.
        on_room: told whenever the outgoing buffer is full (False) or has room again (True).
    """

    def __init__(
        self,
        connection: Connection,
        on_message: Callable[[Message], None],
        on_lost: Callable[[Exception | None], None],
        on_room: Callable[[bool], None] | None = None,
    ) -> None:
        self._connection = connection
        self._on_message = on_message
        self._on_lost = on_lost
        self._on_room = on_room
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether `send` still reaches anybody."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, message: Message) -> bool:
        """Send, or return False when the link is gone: then `on_lost` tells, or has told.

        Raises:
            LocalProtocolError: the message may not be sent now, or is too large.
        """
        if self._transport is None or self._transport.is_closing():
            return False
        parts = self._connection.send(message)
        # not writelines(): in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 it never tells that the buffer is full, and a
        # peer that does not read would fill our memory (CVE-2024-12254)
        self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        return True

    def pause_reading(self) -> None:
        """Leave what the peer sends in the kernel until `resume_reading`."""
        if self.is_open and self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self.is_open and self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close when what was sent has left. May be called twice."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now; what has not left is lost. May be called twice."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if hasattr(transport, "max_size"):  # of asyncio's own loops; others read as they please
            transport.max_size = _RECEIVE_BYTES

    def data_received(self, data: bytes) -> None:
        try:
            message = self._connection.receive_sole(data)
            if message is not None:
                self._on_message(message)
                return
        except RemoteProtocolError as exc:
            self._error = exc
            self.abort()
            return
        self._connection.receive_data(data)
        self._pump()

    def eof_received(self) -> bool:
        self._connection.receive_data(b"")
        self._pump()
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost(self._error or exc)

    def pause_writing(self) -> None:
        if self._on_room is not None:
            self._on_room(False)

    def resume_writing(self) -> None:
        if self._on_room is not None:
            self._on_room(True)

    def _pump(self) -> None:
        try:
            while (event := self._connection.next_event()) is not NEED_DATA:
                if event is CLOSED:
                    return
                self._on_message(event)
        except RemoteProtocolError as exc:
            self._error = exc
            self.abort()


async def open_link(sock: socket.socket, link: Link) -> Link:
    """Put ``link`` on a connected socket; the link owns it from now on."""
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(lambda: link, sock)
    return link
