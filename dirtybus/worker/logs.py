"""Log records of a worker on their way to the owner: stdlib logging, loguru, and what is printed."""

from __future__ import annotations

import os
import sys
import threading
import traceback as tracebacks
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dirtybus.app import _current
from dirtybus.errors import DirtyError
from dirtybus.protocol.heads import Log
from dirtybus.protocol.messages import Message
from dirtybus.worker.imports import after_import
from dirtybus.worker.printed import PrintedLines

__all__ = ["LogForwarder"]

_INFO, _WARNING, _ERROR = 20, 30, 40
_MAX_CHARS = 64 * 1024


class LogForwarder:
    """Sends every record with the app and the call it belongs to.

    What cannot be sent (it comes out of sending itself, is over the limit, or the owner is gone) is written to the
    process's own stderr, where the owner reads it too.

    Args:
        send: sends one message to the owner.
        level: records below this number stay here.
    """

    def __init__(self, send: Callable[[Message], None], level: int) -> None:
        self._send = send
        self._level = level
        self._busy = threading.local()
        self._is_forked = False
        self._out = PrintedLines(sys.__stdout__, lambda text: self.forward(_INFO, text, "stdout"))
        self._err = PrintedLines(sys.__stderr__, self._forward_error_text)

    def install(self) -> None:
        """Take over stdlib logging, loguru and the printed streams of this process."""
        after_import("logging", self._adopt_logging)
        after_import("loguru", self._adopt_loguru)
        sys.stdout, sys.stderr = self._out, self._err
        os.register_at_fork(after_in_child=self._note_fork)

    def close(self) -> None:
        """Hand on what was printed without a newline at its end."""
        self._out.finish()
        self._err.finish()

    def forward(self, level: int, text: str, logger: str = "", traceback: str | None = None) -> None:
        """Send one record. Never raises."""
        if level < self._level:
            return None
        if self._is_forked or getattr(self._busy, "yes", False):
            return _write_raw(text)
        context = _current.get(None)
        call_id, app = (context.id, context.app) if context is not None else (0, None)
        told = None if traceback is None else traceback[-_MAX_CHARS:]
        head = Log(level=level, text=text[:_MAX_CHARS], logger=logger, app=app, traceback=told)
        self._busy.yes = True
        try:
            self._send(Message(head, call_id))
        except DirtyError:
            _write_raw(text)
        finally:
            self._busy.yes = False
        return None

    def _note_fork(self) -> None:
        """We are a copy of the worker that the app has forked: the link is not ours to write to."""
        self._is_forked = True
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__

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
                try:
                    forward(record.levelno, record.getMessage(), record.name, _traceback_of(record.exc_info))
                except Exception:
                    self.handleError(record)  # as the library's own handlers do: the action goes on

        logging.root.addHandler(Handler())
        if logging.root.level > self._level or logging.root.level == _WARNING:
            logging.root.setLevel(self._level)

    def _adopt_loguru(self, loguru: ModuleType) -> None:
        def sink(message: Any) -> None:
            record = message.record
            error = record["exception"]
            text = None if error is None else _traceback_of((error.type, error.value, error.traceback))
            self.forward(record["level"].no, record["message"], record["name"] or "", text)

        loguru.logger.remove()  # its default sink would print each record a second time
        loguru.logger.add(sink, level=self._level, format="{message}", catch=True)


def _traceback_of(error: Any) -> str | None:
    return "".join(tracebacks.format_exception(*error)) if error and error[0] else None


def _write_raw(text: str) -> None:
    try:
        # not through sys.__stderr__: its buffer has a lock of its own
        os.write(2, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError:
        return  # nobody reads it any more
