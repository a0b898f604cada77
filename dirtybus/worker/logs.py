"""Log records of a worker on their way to the owner: stdlib logging, loguru, and what is printed."""

from __future__ import annotations

import io
import sys
import threading
import traceback as tracebacks
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dirtybus.app import _current
from dirtybus.protocol.messages import Log, Message
from dirtybus.worker.imports import after_import

__all__ = ["LogForwarder"]

_INFO, _WARNING, _ERROR = 20, 30, 40
_MAX_TEXT = 64 * 1024


class LogForwarder:
    """Sends every record with the app and the call it belongs to.

    Args:
        send: sends one message to the owner.
        level: records below this number stay here.
    """

    def __init__(self, send: Callable[[Message], None], level: int) -> None:
        self._send = send
        self._level = level
        self._busy = threading.local()

    def install(self) -> None:
        """Take over stdlib logging, loguru and the printed streams of this process."""
        after_import("logging", self._adopt_logging)
        after_import("loguru", self._adopt_loguru)
        sys.stdout = _PrintedLines(sys.__stdout__, lambda text: self.forward(_INFO, text, "stdout"))
        sys.stderr = _PrintedLines(sys.__stderr__, self._forward_error_text)

    def forward(self, level: int, text: str, logger: str = "", traceback: str | None = None) -> None:
        """Send one record; dropped when it comes out of sending itself, or when the owner is gone."""
        if level < self._level or getattr(self._busy, "yes", False):
            return
        context = _current.get(None)
        call_id, app = (context.id, context.app) if context is not None else (0, None)
        self._busy.yes = True
        try:
            head = Log(level=level, text=text[:_MAX_TEXT], logger=logger, app=app, traceback=traceback)
            self._send(Message(head, call_id))
        except OSError:
            _raw_stderr(text)
        finally:
            self._busy.yes = False

    def _forward_error_text(self, text: str) -> None:
        if text.startswith("Traceback (most recent call last)"):
            last = text.rstrip().rpartition("\n")[2]
            self.forward(_ERROR, last, "stderr", traceback=text)
        else:
            self.forward(_WARNING, text, "stderr")

    def _adopt_logging(self, logging: ModuleType) -> None:
        forward = self.forward

        class Handler(logging.Handler):  # type: ignore[name-defined,misc]
            def emit(self, record: Any) -> None:
                error = record.exc_info
                text = "".join(tracebacks.format_exception(*error)) if error and error[0] else None
                forward(record.levelno, record.getMessage(), record.name, text)

        logging.root.addHandler(Handler())
        if logging.root.level > self._level or logging.root.level == _WARNING:
            logging.root.setLevel(self._level)

    def _adopt_loguru(self, loguru: ModuleType) -> None:
        def sink(message: Any) -> None:
            record = message.record
            error = record["exception"]
            text = None
            if error is not None and error.value is not None:
                text = "".join(tracebacks.format_exception(error.value))
            self.forward(record["level"].no, record["message"], record["name"] or "", text)

        loguru.logger.remove()  # its default sink would print each record a second time
        loguru.logger.add(sink, level=self._level, format="{message}", catch=False)


class _PrintedLines(io.TextIOBase):
    """A text stream that hands on whole lines, and a printed traceback as one piece."""

    def __init__(self, original: Any, hand_on: Callable[[str], None]) -> None:
        self._original = original
        self._hand_on = hand_on
        self._lock = threading.RLock()
        self._part = ""
        self._traceback: list[str] = []

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._original.fileno())

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._part = (self._part + text).split("\n")
            for line in lines:
                self._line(line)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept but an unfinished line, which the next newline completes."""

    def _line(self, line: str) -> None:
        if self._traceback:
            self._traceback.append(line)
            if line and not line.startswith(" "):  # the line with the exception ends it
                text, self._traceback = "\n".join(self._traceback), []
                self._hand_on(text)
        elif line.startswith("Traceback (most recent call last)"):
            self._traceback = [line]
        elif line.strip():
            self._hand_on(line)


def _raw_stderr(text: str) -> None:
    if sys.__stderr__ is not None:
        sys.__stderr__.write(text + "\n")
