"""The parent: a shell between us and whoever will stop us keeps its signals to itself. Sends none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["shell_above", "shell_of"]

_SHELLS: Final = frozenset({"sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh"})
_FIRST_PID: Final = 1
_MOST_CHARS: Final = 80


def shell_above() -> str | None:
    """Return the command of a shell that started this process only to run it; None when there is none such."""
    pid = os.getppid()
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # no such file system here, or it has ended meanwhile
        return None
    return shell_of(pid, [os.fsdecode(word) for word in command.split(b"\0")[:-1]])


def shell_of(pid: int, words: list[str]) -> str | None:
    """Return the command as text if it is a shell's with ``-c``, or a shell is the first process of a container."""
    if not words or os.path.basename(words[0]).lstrip("-") not in _SHELLS:
        return None
    # options may be run together, as in `bash -lc`
    runs_text = any(word.startswith("-") and not word.startswith("--") and "c" in word for word in words[1:-1])
    if not runs_text and pid != _FIRST_PID:
        return None
    text = " ".join(words)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
