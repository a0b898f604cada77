"""Which calls a worker has begun: written by the worker into memory that its owner can read after its death.

So a call that was sent to a worker but never begun is known as such when the worker dies, and goes to another one,
whatever it does. Call ``n`` is noted at place ``n`` modulo the number of places, and ids only grow: a place that
holds a number below ``n`` proves that ``n`` was not begun. One that holds a later call says "begun", which is the safe
side; so an earlier call that begins after a later one (it was run again, or waited long) must leave it there.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading

__all__ = ["Claims"]

_PLACES = 1024
_NUMBER = struct.Struct("<Q")
_BYTES = _PLACES * _NUMBER.size


class Claims:
    """A worker's notes. Made by the owner, which hands ``fd`` to the worker; there, opened by `attach`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, _BYTES)
        self._lock = threading.Lock()

    @classmethod
    def create(cls) -> Claims:
        """Make an empty one. Raises OSError when the system refuses memory or a descriptor."""
        fd = _anonymous_file()
        try:
            os.ftruncate(fd, _BYTES)
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def attach(cls, fd: int) -> Claims:
        """Open what the owner made, and close the descriptor: the memory stays."""
        claims = cls(fd)
        claims.close_fd()
        return claims

    def claim(self, call_id: int) -> None:
        """Note that the call begins."""
        at = call_id % _PLACES * _NUMBER.size
        with self._lock:
            (noted,) = _NUMBER.unpack_from(self._memory, at)
            if noted < call_id:
                _NUMBER.pack_into(self._memory, at, call_id)

    def was_begun(self, call_id: int) -> bool:
        """Whether the call may have begun; False is certain."""
        (noted,) = _NUMBER.unpack_from(self._memory, call_id % _PLACES * _NUMBER.size)
        return bool(noted >= call_id)

    def close_fd(self) -> None:
        """Close the descriptor; the memory stays readable. May be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """Give everything back. May be called twice."""
        self.close_fd()
        self._memory.close()


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("dirtybus-claims", os.MFD_CLOEXEC)
    import tempfile  # 5 ms that only systems without memfd pay

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
