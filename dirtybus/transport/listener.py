"""The door for other processes: a Unix socket of mode 0600, for this user only, at a path that may be stale."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Callable

from dirtybus.errors import ConfigError, DirtyConnectionError
from dirtybus.transport import posix

__all__ = ["UnixListener", "connect"]

_BACKLOG = 512
_PROBE_S = 1.0
#: what connecting says when the socket at a path is nobody's any more
_STALE = frozenset({errno.ECONNREFUSED, errno.ENOENT})


class UnixListener:
    """Listen at ``path``; each connection of this user (or root) gets a protocol from ``factory``.

    Args:
        path: where; a missing directory is made with mode 0700, a stale socket is replaced.
        factory: makes the asyncio protocol of one connection.
        on_stranger: told the user id of a peer that was turned away.
    """

    def __init__(
        self, path: str, factory: Callable[[], asyncio.Protocol], on_stranger: Callable[[int | None], None]
    ) -> None:
        self.path = os.path.abspath(path)
        self._factory = factory
        self._on_stranger = on_stranger
        self._server: asyncio.Server | None = None
        self._identity: tuple[int, int] | None = None

    async def open(self) -> None:
        """Bind and listen.

        Raises:
            ConfigError: the path is taken by something else, too long, or its directory is not safe or not ours.
        """
        try:
            sock = _bind(self.path)
            self._identity = _identity_of(self.path)
        except OSError as exc:
            raise ConfigError(
                f"cannot put a socket at {self.path!r}: {exc.strerror or exc}; choose a path that you may write to"
            ) from exc
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Door(self), sock=sock, backlog=_BACKLOG)

    def close(self) -> None:
        """Stop listening and remove the path if it is still ours. Open connections live on. May be called twice."""
        # the path first: once the socket is closed, another file may be given its inode
        if self._identity is not None and _identity_of(self.path) == self._identity:
            os.unlink(self.path)
        self._identity = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def welcome(self, transport: asyncio.Transport) -> asyncio.Protocol | None:
        """Return the protocol for a new connection, or None when the peer may not come in, or comes too late."""
        if self._server is None:
            return None
        uid = posix.peer_uid(transport.get_extra_info("socket"))
        if uid is not None and uid not in {os.getuid(), 0}:
            self._on_stranger(uid)
            return None
        return self._factory()


class _Door(asyncio.Protocol):
    """Checks who is there before anybody talks to them."""

    def __init__(self, listener: UnixListener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        protocol = self._listener.welcome(transport)
        if protocol is None:
            transport.abort()
            return
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def _bind(path: str) -> socket.socket:
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    mode = os.stat(directory).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ConfigError(
            f"anybody may replace files in {directory!r} (mode {stat.S_IMODE(mode):o}), so no socket is put there; "
            "choose a directory of your own"
        )
    with posix.address_of(path):
        pass  # refuses a path that no client could name
    _refuse_if_taken(path)
    # bound in a private directory, then moved: never visible with a wider mode, and a stale path goes in one step
    with tempfile.TemporaryDirectory(dir=directory, prefix=".dirtybus-") as private:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            hidden = os.path.join(private, "s")
            with posix.address_of(hidden) as address:
                sock.bind(address)
            os.chmod(hidden, 0o600)
            sock.setblocking(False)
            sock.listen(_BACKLOG)
            os.rename(hidden, path)
        except BaseException:
            sock.close()
            raise
    return sock


def _refuse_if_taken(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path!r} exists and is not a socket; remove it or choose another socket path")
    try:
        connect(path, timeout_s=_PROBE_S).close()
    except DirtyConnectionError as exc:
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in _STALE:
            return
        raise ConfigError(f"{path!r} is in use ({cause}); stop who uses it or choose another socket path") from exc
    raise ConfigError(f"another arbiter listens at {path!r}; stop it or choose another socket path")


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(path: str, *, timeout_s: float | None = 5.0) -> socket.socket:
    """Return a blocking socket connected to the arbiter at ``path``.

    Raises:
        DirtyConnectionError: nobody listens there, we may not, or it did not get to us within ``timeout_s`` seconds.
        ConfigError: the path is too long.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with posix.address_of(path) as address:
            posix.connect_within(sock, address, timeout_s)
    except BlockingIOError as exc:
        sock.close()
        raise DirtyConnectionError(
            f"the arbiter at {path!r} is too busy to answer: no connection within {timeout_s} s",
            socket_path=path,
            started=False,
        ) from exc
    except ConfigError:
        sock.close()
        raise
    except OSError as exc:
        sock.close()
        raise DirtyConnectionError(
            f"cannot reach an arbiter at {path!r}: {exc.strerror or exc}. Is it running there? "
            "Start one with: dirtybus run module:Class --socket PATH",
            socket_path=path,
            started=False,
        ) from exc
    return sock
