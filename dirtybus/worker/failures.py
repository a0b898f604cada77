"""Exceptions of the user's code on their way out: however odd they are, the caller is told something."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from dirtybus.errors import DirtyAppError, DirtyError, LocalProtocolError
from dirtybus.protocol.heads import BootFailed
from dirtybus.protocol.messages import Message

if TYPE_CHECKING:
    from dirtybus.worker.host import BootStep

__all__ = ["app_error", "send_boot_failure", "send_error"]

_MAX_CHARS = 64 * 1024
_SHORT_CHARS = 1000
_BARE_CHARS = 100
_KEPT = ("app_path", "action", "error_type")


def app_error(exc: BaseException, *, app: str | None, action: str) -> DirtyAppError:
    """Return ``exc`` as an error that can travel, with the traceback as text."""
    kind = type(exc)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = "".join(traceback.format_exception(exc))
    return DirtyAppError(
        _text_of(exc)[:_MAX_CHARS] or name,
        app_path=app,
        action=action,
        traceback=text[-_MAX_CHARS:],  # the end says what went wrong
        error_type=name,
    )


def send_error(send: Callable[[DirtyError], None], error: DirtyError) -> None:
    """Send ``error``; where the link refuses it, a shorter form.

    It refuses what is over the limit, and details that are no plain values.
    """
    for form in (error, _shortened(error)):
        try:
            return send(form)
        except LocalProtocolError:
            continue
    return send(DirtyError(f"{error.code}: {error.message}"[:_BARE_CHARS]))


def send_boot_failure(send: Callable[[Message], None], failed: BootStep) -> None:
    """Send the boot report."""

    def report(error: DirtyError) -> None:
        head = BootFailed(step=failed.step, app=failed.app, duration_s=failed.duration_s, error=error.to_dict())
        send(Message(head))

    send_error(report, failed.error())


def _shortened(error: DirtyError) -> DirtyError:
    details = {name: str(error.details[name])[:_SHORT_CHARS] for name in _KEPT if name in error.details}
    message = f"{error.message[:_SHORT_CHARS]} (cut short: the whole error could not be sent)"
    return DirtyError.from_dict({"code": error.code, "message": message, "details": details})


def _text_of(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:
        return ""  # its own __str__ is broken
