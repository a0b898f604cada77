"""Records of workers, said again in the owner's loguru with the worker, the app and the call they belong to."""

from __future__ import annotations

import traceback as tracebacks
from typing import Any

from loguru import logger

__all__ = ["error", "logger", "repeat"]


def repeat(*, level: int, text: str, name: str, worker: int, app: str | None, call: int, traceback: str | None) -> None:
    """Log one record of a worker here."""

    def as_theirs(record: dict[str, Any]) -> None:
        record.update(name=name or "worker", function=app or "", line=0)

    extra = {"worker": worker, "app": app, "call": call or None, "who": f"worker {worker}"}
    message = f"{text}\n{traceback.rstrip()}" if traceback else text
    # the text is an argument: braces in it are nobody's template
    logger.bind(**extra).patch(as_theirs).log(_level(level), "{}", message)  # type: ignore[arg-type]


def error(exc: BaseException, text: str, *args: object, **extra: object) -> None:
    """Log an error with its traceback as text: loguru's own would show the values of variables, payloads among them."""
    lines = "".join(tracebacks.format_exception(exc)).rstrip()
    logger.opt(depth=1).bind(**extra).error("{}\n{}", text.format(*args), lines)


def _level(number: int) -> str | int:
    names = {5: "TRACE", 10: "DEBUG", 20: "INFO", 25: "SUCCESS", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
    return names.get(number, number)
