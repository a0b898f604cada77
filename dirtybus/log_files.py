"""The files that stdlib logging writes to in this process, opened anew after somebody has moved them away.

Knows neither workers nor owners: both use it. Loads nothing: where logging was never imported, there are no files.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

__all__ = ["reopen_log_files"]


def reopen_log_files() -> list[str]:
    """Open each file of a `logging.FileHandler` of this process anew, by its name, to append to it.

    Waits for records that are being written: not for a signal handler, which may have interrupted one.

    Returns:
        a sentence for each file that could not be opened; its handler goes on writing to the old one.
    """
    module = sys.modules.get("logging")
    if module is None:
        return []
    # also those that stand behind another handler (a queue's, a memory's), which no logger knows
    handlers = [reference() for reference in list(module._handlerList)]  # noqa: SLF001 - it has no other list
    problems = [_reopen(handler) for handler in handlers if isinstance(handler, module.FileHandler)]
    return [problem for problem in problems if problem is not None]


def _reopen(handler: logging.FileHandler) -> str | None:
    handler.acquire()
    try:
        if handler.stream is None:
            return None  # not opened yet, or closed for good
        # "w" and "x" were for the first time; now they would empty the file, or refuse it
        handler.mode = handler.mode.replace("w", "a").replace("x", "a")
        old, handler.stream = handler.stream, handler._open()  # noqa: SLF001 - what logging's own rotation calls
        old.close()
    except OSError as exc:
        return f"the log file {handler.baseFilename} could not be opened anew: {exc.strerror}"
    finally:
        handler.release()
    return None
