"""The work that is done while workers are killed: short, and written down at its begin and its end.

Loaded in the workers of every contestant. Each line is one write to a file that is only appended to.
"""

from __future__ import annotations

import os
import time
from typing import Final

__all__ = ["JOURNAL", "answer", "work"]

#: the environment variable that names the file
JOURNAL: Final = "DIRTYBUS_BENCH_JOURNAL"
_WORK_S: Final = 0.012
_fd = -1


def work(token: str) -> str:
    """Take a moment and return the token's answer."""
    _note(f"begin {token} {os.getpid()}\n")
    time.sleep(_WORK_S)
    _note(f"end {token} {os.getpid()}\n")
    return answer(token)


def answer(token: str) -> str:
    """Return what `work` must return for the token."""
    return token[::-1]


def _note(line: str) -> None:
    global _fd  # one file for each process
    if _fd < 0:
        _fd = os.open(os.environ[JOURNAL], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(_fd, line.encode())
