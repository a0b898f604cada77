"""Where clients come in: hears from the first bytes which protocol they speak, and keeps a list of who is there."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from dirtybus import log
from dirtybus.arbiter.gd1_session import Gd1Session
from dirtybus.arbiter.sessions import NativeSession, SessionArbiter
from dirtybus.protocol.frames import GD1
from dirtybus.transport.listener import UnixListener

__all__ = ["Door"]

_VERSION_AT: Final = 2


class Session(Protocol):
    """An attached client, whatever it speaks."""

    def announce_drain(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Door:
    """Listen at ``path`` and keep a session per client.

    Clients that come before `admit` are let in and wait: what they send stays in the kernel until then.
    """

    def __init__(self, path: str, arbiter: SessionArbiter) -> None:
        self._arbiter = arbiter
        self._listener = UnixListener(path, lambda: _Threshold(self), _turn_away)
        self._waiting: set[_Threshold] = set()
        self._sessions: set[Session] = set()
        self._is_open = False

    @property
    def path(self) -> str:
        """Where the socket is."""
        return self._listener.path

    async def open(self) -> None:
        """Bind the socket. Raises `ConfigError` when the path is taken or not safe."""
        await self._listener.open()

    def admit(self) -> None:
        """Let the waiting clients speak."""
        self._is_open = True
        for threshold in list(self._waiting):
            threshold.let_in()

    def announce_drain(self) -> None:
        """Let in who waits, so that they are told, and tell every client that no new calls are taken."""
        self.admit()
        for session in list(self._sessions):
            session.announce_drain()

    def greet_all(self) -> None:
        """Tell every client that speaks the native protocol anew what there is: it has changed."""
        for session in list(self._sessions):
            if isinstance(session, NativeSession):
                session.greet()

    def close(self) -> None:
        """Stop listening; close every session once what was said has left. May be called twice."""
        self._listener.close()
        for session in list(self._sessions):
            session.close()
        for threshold in list(self._waiting):
            threshold.abort()

    def enter(self, threshold: _Threshold) -> bool:
        """Note a new connection; returns whether it may speak at once."""
        self._waiting.add(threshold)
        return self._is_open

    def forget(self, threshold: _Threshold) -> None:
        """A connection has become a session, or has gone."""
        self._waiting.discard(threshold)

    def session(self, version: int) -> NativeSession | Gd1Session:
        """Make the session for a client that speaks ``version``."""
        made: NativeSession | Gd1Session
        if version == GD1:
            made = Gd1Session(self._arbiter, self._sessions.discard)
        else:
            made = NativeSession(self._arbiter, self._sessions.discard)
        self._sessions.add(made)
        return made


class _Threshold(asyncio.Protocol):
    """A connection before its first bytes."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._first = b""

    def let_in(self) -> None:
        """Read what the client has sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._door.enter(self):
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._first += data
        if len(self._first) <= _VERSION_AT or self._transport is None:
            return
        transport, self._transport = self._transport, None
        self._door.forget(self)
        session = self._door.session(self._first[_VERSION_AT])
        transport.set_protocol(session)
        session.connection_made(transport)
        session.data_received(self._first)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._door.forget(self)


def _turn_away(uid: int | None) -> None:
    log.logger.bind(uid=uid).warning("a process of user {} was turned away from the socket", uid)
