"""The client of this process: one for all its threads and loops, at the path set, or named by the environment."""

from __future__ import annotations

import os
import threading

from dirtybus.client.client import DirtyClient
from dirtybus.client.stash_port import ClientPort
from dirtybus.errors import DirtyError

__all__ = [
    "close_dirty_client",
    "close_dirty_client_async",
    "default_stash_port",
    "get_dirty_client",
    "get_dirty_client_async",
    "get_dirty_socket_path",
    "set_dirty_socket_path",
]

_VARIABLES = ("DIRTYBUS_SOCKET", "GUNICORN_DIRTY_SOCKET")
_lock = threading.Lock()
_path: str | None = None
_client: DirtyClient | None = None


def set_dirty_socket_path(path: str | None) -> None:
    """Name the arbiter's socket for this process; None goes back to the environment."""
    global _path
    _path = path


def get_dirty_socket_path() -> str:
    """Return the path of the arbiter's socket.

    Raises:
        DirtyError: none was set, and neither variable of the environment is.
    """
    if _path is not None:
        return _path
    for name in _VARIABLES:
        if path := os.environ.get(name):
            return path
    raise DirtyError(
        "no arbiter is known here: set DIRTYBUS_SOCKET to the socket of a running one "
        "(dirtybus run module:Class --socket PATH), or call set_dirty_socket_path(PATH)"
    )


def get_dirty_client(timeout: float | None = None, *, reconnect_s: float = 0.0) -> DirtyClient:
    """Return the client of this process, for any thread. The arguments count where it is made: the first time.

    Args:
        timeout: as for `DirtyClient`.
        reconnect_s: as for `DirtyClient`.

    Raises:
        DirtyError: no socket path is known.
    """
    global _client
    path = get_dirty_socket_path()
    with _lock:
        if _client is None or _client.socket_path != path:
            _client = DirtyClient(path, timeout, reconnect_s=reconnect_s)
        return _client


async def get_dirty_client_async(timeout: float | None = None, *, reconnect_s: float = 0.0) -> DirtyClient:
    """As `get_dirty_client`, connected for the running loop.

    One with ``reconnect_s`` connects when it is used, as its calls wait for an arbiter.

    Raises:
        DirtyError: no socket path is known.
        DirtyConnectionError: nobody listens there.
    """
    client = get_dirty_client(timeout, reconnect_s=reconnect_s)
    if not client.stamina.reconnects:
        await client.connect_async()
    return client


def close_dirty_client() -> None:
    """Hang up the threads' connection of this process's client. May be called twice."""
    if _client is not None:
        _client.close()


async def close_dirty_client_async() -> None:
    """Hang up the running loop's connection of this process's client. May be called twice."""
    if _client is not None:
        await _client.close_async()


def default_stash_port() -> ClientPort:
    """Return the way to the stash through this process's client. Raises as `get_dirty_client`."""
    return ClientPort(get_dirty_client())
