"""A line on the terminal that shows how far an action is, and goes away again."""

from __future__ import annotations

from typing import TextIO

from dirtybus.protocol.heads import Progress

__all__ = ["ProgressLine", "progress_text"]

_BAR_WIDTH = 24
_TO_START_AND_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Draws each report over the one before.

    Args:
        terminal: where; must be a terminal, as it is sent control sequences.
        width: how many columns it has.
    """

    def __init__(self, terminal: TextIO, width: int) -> None:
        self._terminal = terminal
        self._width = width
        self._is_drawn = False

    def show(self, report: Progress) -> None:
        """Draw the report."""
        self._write(_TO_START_AND_CLEAR + progress_text(report)[: self._width - 1])
        self._is_drawn = True

    def clear(self) -> None:
        """Leave an empty line to whoever writes next. May be called twice."""
        if self._is_drawn:
            self._write(_TO_START_AND_CLEAR)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


def progress_text(report: Progress) -> str:
    """Return the report in one line: a bar if the total is known, else a count."""
    text = " ".join(report.text.split())
    if not report.total or report.total <= 0:
        return f"{report.done:g} {text}".rstrip()
    share = min(1.0, max(0.0, report.done / report.total))
    full = round(share * _BAR_WIDTH)
    bar = "█" * full + "░" * (_BAR_WIDTH - full)
    return f"{bar} {share:4.0%} {report.done:g}/{report.total:g} {text}".rstrip()
