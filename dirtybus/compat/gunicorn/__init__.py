"""`gunicorn.dirty`, by the same names: ``from dirtybus.compat.gunicorn import DirtyApp, get_dirty_client, stash``.

The client speaks our own protocol to a dirtybus arbiter and gunicorn's to one of gunicorn's. Only gunicorn's
``DirtyArbiter``, which its core starts, has no namesake here: ``dirtybus run`` takes its place.
"""

from __future__ import annotations

from dirtybus.compat.gunicorn import stash
from dirtybus.compat.gunicorn.app import DirtyApp
from dirtybus.compat.gunicorn.client import (
    DirtyClient,
    close_dirty_client,
    close_dirty_client_async,
    get_dirty_client,
    get_dirty_client_async,
    set_dirty_socket_path,
)
from dirtybus.compat.gunicorn.errors import (
    DirtyAppError,
    DirtyAppNotFoundError,
    DirtyConnectionError,
    DirtyError,
    DirtyNoWorkersAvailableError,
    DirtyProtocolError,
    DirtyTimeoutError,
    DirtyWorkerError,
)
from dirtybus.compat.gunicorn.stash import (
    StashClient,
    StashError,
    StashKeyNotFoundError,
    StashTable,
    StashTableNotFoundError,
)

__all__ = [
    "DirtyApp",
    "DirtyAppError",
    "DirtyAppNotFoundError",
    "DirtyClient",
    "DirtyConnectionError",
    "DirtyError",
    "DirtyNoWorkersAvailableError",
    "DirtyProtocolError",
    "DirtyTimeoutError",
    "DirtyWorkerError",
    "StashClient",
    "StashError",
    "StashKeyNotFoundError",
    "StashTable",
    "StashTableNotFoundError",
    "close_dirty_client",
    "close_dirty_client_async",
    "get_dirty_client",
    "get_dirty_client_async",
    "set_dirty_socket_path",
    "stash",
]
