"""Where the log of a program of ours goes: stderr, a line a record, without what will be said in plain words anyway."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

__all__ = ["log_to_stderr"]

_FORMAT: Final = (
    "<green>{time:HH:mm:ss.SSS}</green> <level>{level: <8}</level> {extra[who]: <9} <level>{message}</level>"
)
#: says why a launch failed twice, and never in the words for a person
_GUARD: Final = "dirtybus.services.guard"


def log_to_stderr(level: str) -> None:
    """Make loguru write records of ``level`` and above to stderr, and nothing anywhere else."""
    logger.remove()
    logger.disable("launart")  # says once more, louder, what our services say
    logger.configure(extra={"who": ""})
    logger.add(
        _write,
        level=level.upper(),
        format=_FORMAT,
        filter=_is_news,
        colorize=sys.stderr.isatty(),
        backtrace=False,
        diagnose=False,
    )


def _write(text: str) -> None:
    # asked anew each time: a live view puts its own stream there for as long as it draws
    sys.stderr.write(text)


def _is_news(record: Record) -> bool:
    return not (record["name"] == _GUARD and record["level"].name == "ERROR")
