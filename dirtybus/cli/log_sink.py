"""Where the log of a program of ours goes, a line a record: stderr, or a file that may be moved away under it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from loguru import logger

from dirtybus.errors import ConfigError

if TYPE_CHECKING:
    from loguru import Record

__all__ = ["LogFile", "log_to_file", "log_to_stderr"]

_FORMAT: Final = (
    "<green>{time:HH:mm:ss.SSS}</green> <level>{level: <8}</level> {extra[who]: <9} <level>{message}</level>"
)
#: says why a launch failed twice, and never in the words for a person
_GUARD: Final = "dirtybus.services.guard"


def log_to_stderr(level: str) -> None:
    """Make loguru write records of ``level`` and above to stderr, and nothing anywhere else.

    What will be said there in plain words anyway is left out.
    """
    _log_to(_write, level, wanted=_is_news, colorize=sys.stderr.isatty())


def log_to_file(file: LogFile, level: str) -> None:
    """Make loguru write records of ``level`` and above to this file, and nothing anywhere else."""
    _log_to(file.write, level, wanted=None, colorize=False)


class LogFile:
    """A text file that is only ever added to, and can be opened anew when it was moved away.

    Each record is handed to the system at once. Made with the rights that the process's umask leaves.

    Raises:
        ConfigError: it cannot be opened; names it.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._lock = threading.Lock()
        try:
            self._file = self._open()
        except OSError as exc:
            raise ConfigError(f"--log-file {path!r}: {exc.strerror}; name a file that this user may write to") from exc

    def write(self, text: str) -> None:
        """Add a record. In any thread."""
        with self._lock:
            self._file.write(text)

    def reopen(self) -> None:
        """Go on in a file of the same name, a new one if the old one was moved away.

        When it cannot be opened, the old one is written to as before, and a warning in it says so.
        """
        try:
            fresh = self._open()
        except OSError as exc:
            logger.warning("the log file {} could not be opened anew: {}", self.path, exc.strerror)
            return
        with self._lock:
            old, self._file = self._file, fresh
        old.close()

    def close(self) -> None:
        """Close the file; nothing may be written then. May be called twice."""
        self._file.close()

    def _open(self) -> TextIO:
        return open(self.path, "a", buffering=1, encoding="utf-8", errors="backslashreplace")


def _log_to(
    sink: Callable[[str], None],
    level: str,
    *,
    wanted: Callable[[Record], bool] | None,
    colorize: bool,
) -> None:
    logger.remove()
    logger.disable("launart")  # says once more, louder, what our services say
    logger.configure(extra={"who": ""})
    logger.add(
        sink,
        level=level.upper(),
        format=_FORMAT,
        filter=wanted,
        colorize=colorize,
        backtrace=False,
        diagnose=False,
    )


def _write(text: str) -> None:
    # asked anew each time: a live view puts its own stream there for as long as it draws
    sys.stderr.write(text)


def _is_news(record: Record) -> bool:
    return not (record["name"] == _GUARD and record["level"].name == "ERROR")
