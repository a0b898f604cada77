"""The line on which an owner feels the pulse of a worker: what it sends comes back, unless the worker is stuck.

In the worker, a thread of its own sends it back. It needs the interpreter lock now and then and nothing else, so it
answers beside any action that lets other threads run.
"""

from __future__ import annotations

import _thread
import socket

from dirtybus.transport.posix import inherited_socket

__all__ = ["Pulse", "give_pulse"]

_ASK = b"?"
_READ_BYTES = 64


class Pulse:
    """The owner's end; it never blocks. The worker is handed ``fd``, for `give_pulse`."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def fd(self) -> int:
        """The worker's end."""
        return self._theirs.fileno()

    def close_fd(self) -> None:
        """Close the worker's end here, once the worker has it. May be called twice."""
        self._theirs.close()

    def ask(self) -> None:
        """Send a word that is to come back."""
        try:
            self._ours.send(_ASK)
        except OSError:
            return  # full or closed: nobody answers at the other end, which is what will be noticed

    def was_answered(self) -> bool:
        """Whether anything has come back since the last look."""
        try:
            return bool(self._ours.recv(_READ_BYTES))
        except OSError:
            return False

    def close(self) -> None:
        """Give everything back. May be called twice."""
        self._theirs.close()
        self._ours.close()


def give_pulse(fd: int) -> None:
    """In a worker: send back whatever comes on ``fd``, from now on, in a thread of its own.

    The thread is none of those that `threading` knows: an app that counts or awaits its threads does not meet it.
    """
    _thread.start_new_thread(_echo, (inherited_socket(fd),))


def _echo(sock: socket.socket) -> None:
    try:
        with sock:
            while asked := sock.recv(_READ_BYTES):
                sock.sendall(asked)
    except OSError:
        return  # the owner is gone; its link tells the others
