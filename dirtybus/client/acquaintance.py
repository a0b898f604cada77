"""What one connection knows of the arbiter at its other end, and so what its loss says of calls without an answer."""

from __future__ import annotations

import os

from dirtybus.errors import DirtyConnectionError
from dirtybus.protocol.heads import Drain, Goodbye, Head, Hello
from dirtybus.version import __version__

__all__ = ["Acquaintance"]


class Acquaintance:
    """Notes what the arbiter says of itself. Never reused: another connection is another arbiter.

    Args:
        path: its socket.
        greets: whether we said hello before anything else. The arbiter answers that before it reads on.
    """

    def __init__(self, path: str, *, greets: bool) -> None:
        self.path = path
        self.is_draining = False
        #: we hung up ourselves
        self.is_left = False
        self.idempotent: frozenset[tuple[str, ...]] = frozenset()
        self._has_listened = not greets
        self._said_goodbye = False

    def hello(self) -> Hello:
        """Return our own first words."""
        return Hello(role="client", pid=os.getpid(), version=__version__)

    def note(self, head: Head) -> None:
        """Take in what concerns the connection as a whole."""
        match head:
            case Hello():
                self._has_listened = True
                self.idempotent = frozenset(tuple(pair) for pair in head.idempotent)
            case Drain():
                self.is_draining = True
            case Goodbye():
                self._said_goodbye = True

    def loss(self, why: str, *, was_sent: bool = True) -> DirtyConnectionError:
        """Return the error for a call that has no last word at the end of the connection.

        Args:
            why: how the connection ended.
            was_sent: False when it did not leave here as a whole.
        """
        if self.is_left:
            return DirtyConnectionError(why, self.path)
        is_untaken = not was_sent or self._said_goodbye or not self._has_listened
        if is_untaken:
            text = f"the arbiter went away before it took the call: {why}"
            return DirtyConnectionError(text, self.path, started=False)
        return DirtyConnectionError(f"the arbiter went away before it answered: {why}", self.path)
