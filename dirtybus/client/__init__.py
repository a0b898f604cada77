"""The door for other processes: one connection, any number of threads or tasks, every answer to its own caller."""

from __future__ import annotations

from dirtybus.client.client import DirtyClient
from dirtybus.client.default import (
    close_dirty_client,
    close_dirty_client_async,
    default_stash_port,
    get_dirty_client,
    get_dirty_client_async,
    get_dirty_socket_path,
    set_dirty_socket_path,
)

__all__ = [
    "DirtyClient",
    "close_dirty_client",
    "close_dirty_client_async",
    "default_stash_port",
    "get_dirty_client",
    "get_dirty_client_async",
    "get_dirty_socket_path",
    "set_dirty_socket_path",
]
