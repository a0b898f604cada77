"""The first process of a container: passes signals on, and reaps what others left behind. Runs nothing itself.

Orphans of a container become children of its first process. There, nobody could tell them from children whose exit code
somebody waits for; so the owner runs as a child of a process that starts nothing and may reap all.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

__all__ = ["leave_first_place"]

_FIRST_PID: Final = 1
_STDIN: Final = 0
_MOST_FDS: Final = 65536
#: what the kernel sends to a process for its own faults
_FAULTS: Final = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
)


def leave_first_place() -> None:
    """Go on in a child, if this is the first process of its namespace; else do nothing.

    The first process passes every signal on to the child, and ends with its exit code. To be called before any thread
    is started or anything is opened that is to be closed in time.
    """
    if os.getpid() != _FIRST_PID:
        return
    awaited = signal.valid_signals() - _FAULTS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)  # nothing is lost between here and the first wait
    child = os.fork()
    if child == 0:
        _take_terminal()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os.closerange(3, _MOST_FDS)  # whoever waits for the end of a pipe waits for the child's
    os._exit(_attend(child, awaited))


def _take_terminal() -> None:
    """Be a group of our own, in the foreground: else Ctrl-C would come twice, from the terminal and passed on."""
    os.setpgid(0, 0)
    with contextlib.suppress(OSError):  # there is no terminal, or it is not ours
        os.tcsetpgrp(_STDIN, os.getpgrp())


def _attend(child: int, awaited: set[signal.Signals]) -> int:
    """Pass signals on and reap, until the child has ended; return the exit code."""
    while True:
        signum = signal.sigwait(awaited)
        if signum != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signum)
        elif (code := _reap(child)) is not None:
            return code


def _reap(child: int) -> int | None:
    """Reap whatever has ended; return the child's exit code if it was among that."""
    found = None
    with contextlib.suppress(ChildProcessError):  # there is none left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found
