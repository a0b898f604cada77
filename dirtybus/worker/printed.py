"""What an app prints, cut into lines. Knows nothing of where they go."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["PrintedLines"]

_MAX_CHARS = 64 * 1024
_MAX_LINES = 2000
_TRACEBACK = "Traceback (most recent call last)"


class PrintedLines(io.TextIOBase):
    """A text stream that hands on whole lines, and a printed traceback as one piece.

    Args:
        original: the stream in whose place it stands; has what is not about text, such as ``buffer``.
        hand_on: told of each line that is not blank, without its end.
    """

    def __init__(self, original: Any, hand_on: Callable[[str], None]) -> None:
        self._original = original
        self._hand_on = hand_on
        self._lock = threading.RLock()
        self._part = ""
        self._traceback: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._original.fileno())

    def write(self, text: str) -> int:
        with self._lock:
            *lines, part = (self._part + text).split("\n")
            # a progress bar returns to the start of its line again and again: what stands there last counts
            self._part = part if len(part) < 2 else part[:-1].rpartition("\r")[2] + part[-1]
            for line in lines:
                self._line(_as_shown(line))
            if len(self._part) > _MAX_CHARS:
                self._line(self._part)
                self._part = ""
        return len(text)

    def flush(self) -> None:
        """Nothing is kept but an unfinished line, which the next newline completes."""

    def finish(self) -> None:
        """Hand on what is unfinished: nothing more will be printed."""
        with self._lock:
            part, self._part = _as_shown(self._part), ""
            if part:
                self._line(part)
            self._end_traceback()

    def _line(self, line: str) -> None:
        if self._traceback:
            self._traceback.append(line)
            # the line with the exception ends it
            if (line and not line.startswith(" ")) or len(self._traceback) > _MAX_LINES:
                self._end_traceback()
        elif line.startswith(_TRACEBACK):
            self._traceback = [line]
        elif line.strip():
            self._hand_on(line)

    def _end_traceback(self) -> None:
        lines, self._traceback = self._traceback, []
        if lines:
            self._hand_on("\n".join(lines))


def _as_shown(line: str) -> str:
    """Return what a terminal shows of the line in the end."""
    return line.rstrip("\r").rpartition("\r")[2]
