"""`gunicorn.dirty.errors`: our own classes, which carry gunicorn's names and attributes, so either import catches them.

Where gunicorn's ``str(error)`` appends the details, ours is the message alone; ``error.details`` has them.
"""

from __future__ import annotations

from dirtybus.errors import (
    DirtyAppError,
    DirtyAppNotFoundError,
    DirtyConnectionError,
    DirtyError,
    DirtyNoWorkersAvailableError,
    DirtyProtocolError,
    DirtyTimeoutError,
    DirtyWorkerError,
)

__all__ = [
    "DirtyAppError",
    "DirtyAppNotFoundError",
    "DirtyConnectionError",
    "DirtyError",
    "DirtyNoWorkersAvailableError",
    "DirtyProtocolError",
    "DirtyTimeoutError",
    "DirtyWorkerError",
]
