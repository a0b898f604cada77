"""Every exception of ours, with one root. The class is what the caller will do about it.

An error travels as data: `DirtyError.to_dict` on one side, `DirtyError.from_dict` on the other. So everything an
error knows stands in ``details`` (plain values only) and the attributes read it from there. Codes are for ever:
they stand on the wire and in people's alert rules.
"""

# long: every error in one place, as people look them up there; each class is a few lines
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "ActionNotFound",
    "AppBroken",
    "BootFailed",
    "CallCancelled",
    "CallError",
    "ConfigError",
    "DecodeError",
    "DirtyAppError",
    "DirtyAppNotFoundError",
    "DirtyConnectionError",
    "DirtyError",
    "DirtyNoWorkersAvailableError",
    "DirtyProtocolError",
    "DirtyTimeoutError",
    "DirtyWorkerError",
    "Draining",
    "EncodeError",
    "GateClosed",
    "LeaseHeld",
    "LeaseLost",
    "LocalProtocolError",
    "MissingExtra",
    "PoisonCall",
    "ProtocolError",
    "QueueFull",
    "RemoteProtocolError",
    "StashConflict",
    "StashError",
    "StashFull",
    "StashKeyNotFoundError",
    "StashNotStored",
    "StashTableNotFoundError",
    "Unavailable",
    "WorkerLost",
]


class DirtyError(Exception):
    """The root of all errors here.

    Args:
        message: what happened, why, and what to do about it.
        details: plain values that go with it; they cross process boundaries.
    """

    code: ClassVar[str] = "error"
    #: The class of gunicorn.dirty that a GD v1 client will build from this error.
    gd1_name: ClassVar[str] = "DirtyError"
    _by_code: ClassVar[dict[str, type[DirtyError]]] = {}

    def __init__(self, message: str = "", details: Mapping[str, Any] | None = None) -> None:
        self.message = message
        self.details: dict[str, Any] = {k: v for k, v in dict(details or {}).items() if v is not None}
        super().__init__(message)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # a user's subclass that sets no code of its own must not replace ours
        if "code" in cls.__dict__:
            cls._by_code[cls.code] = cls

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.details)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain values: ``code``, ``message``, ``details``, and gunicorn's ``error_type``."""
        return {"error_type": self.gd1_name, "code": self.code, "message": self.message, "details": self.details}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DirtyError:
        """Rebuild what `to_dict` wrote, here or in gunicorn; an unknown code gives a plain `DirtyError`."""
        found = cls._by_code.get(str(data.get("code"))) or _BY_GD1_NAME.get(str(data.get("error_type")), DirtyError)
        return _rebuild(found, str(data.get("message") or "unknown error"), data.get("details") or {})


def _rebuild(cls: type[DirtyError], message: str, details: Mapping[str, Any]) -> DirtyError:
    """Make an instance without the subclass's own constructor, whose arguments did not travel."""
    error = cls.__new__(cls)
    DirtyError.__init__(error, message, details)
    return error


class ConfigError(DirtyError, ValueError):
    """A setting is wrong; the message names the setting, the value and the remedy."""

    code = "config"


class MissingExtra(DirtyError, ImportError):
    """An optional dependency is not installed; the message has the line to type."""

    code = "missing_extra"

    def __init__(self, package: str, extra: str, why: str) -> None:
        super().__init__(
            f"{why} needs {package!r}, which is not installed. Install it with: pip install 'dirtybus[{extra}]'",
            {"package": package, "extra": extra},
        )


class ProtocolError(DirtyError):
    """Bytes or messages that the protocol does not allow. gunicorn's name for it is ``DirtyProtocolError``."""

    code = "protocol"
    gd1_name = "DirtyProtocolError"

    def __init__(self, message: str = "Protocol error", raw_data: object = None) -> None:
        shown = raw_data[:100].hex() if isinstance(raw_data, (bytes, bytearray)) else raw_data
        super().__init__(message, {"raw_data": None if shown is None else str(shown)[:200]})


class LocalProtocolError(ProtocolError):
    """We tried to send what may not be sent now. Nothing was sent; the link lives on."""

    code = "protocol_local"


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. Its connection is closed; nothing else is touched."""

    code = "protocol_remote"


class DirtyConnectionError(DirtyError, ConnectionError):
    """The arbiter cannot be reached, or went away before it answered.

    ``started`` is False when the call certainly did not begin, so that sending it again does no harm; None when
    nobody knows. ``resent`` is how often the client sent it again.
    """

    code = "connection"
    gd1_name = "DirtyConnectionError"

    def __init__(
        self, message: str = "Connection failed", socket_path: str | None = None, *, started: bool | None = None
    ) -> None:
        super().__init__(message, {"socket_path": socket_path, "started": started})

    @property
    def started(self) -> bool | None:
        return self.details.get("started")

    @property
    def resent(self) -> int:
        return int(self.details.get("resent", 0))

    @property
    def socket_path(self) -> str | None:
        return self.details.get("socket_path")


# --- one call went wrong ------------------------------------------------------------------------------------------


class CallError(DirtyError):
    """This call has no result. Other calls are not affected."""

    code = "call"


class EncodeError(CallError, TypeError):
    """A value cannot be sent. Raised before any work starts; says the type and its place, e.g. ``args[0]['x']``."""

    code = "encode"

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message, {"place": place})

    @property
    def place(self) -> str:
        return str(self.details.get("place", ""))


class DecodeError(CallError, TypeError):
    """A value arrived whole and cannot be rebuilt here: its class is not loaded, its time zone or numpy is missing."""

    code = "decode"


class DirtyAppError(CallError):
    """The app raised. ``traceback`` is the worker's, as text; ``error_type`` is the dotted name of the exception."""

    code = "app"
    gd1_name = "DirtyAppError"

    def __init__(
        self,
        message: str,
        app_path: str | None = None,
        action: str | None = None,
        traceback: str | None = None,
        error_type: str | None = None,
    ) -> None:
        super().__init__(
            message, {"app_path": app_path, "action": action, "traceback": traceback, "error_type": error_type}
        )

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}" if self.error_type else self.message

    @property
    def app_path(self) -> str | None:
        return self.details.get("app_path")

    @property
    def action(self) -> str | None:
        return self.details.get("action")

    @property
    def traceback(self) -> str | None:
        return self.details.get("traceback")

    @property
    def error_type(self) -> str | None:
        return self.details.get("error_type")


class DirtyAppNotFoundError(DirtyAppError):
    """No app of that import path is served here."""

    code = "app_not_found"
    gd1_name = "DirtyAppNotFoundError"

    def __init__(self, app_path: str, message: str | None = None) -> None:
        super().__init__(message or f"Dirty app not found: {app_path}", app_path=app_path)


class ActionNotFound(DirtyAppError):
    """The app has no public action of that name; the message names the nearest one."""

    code = "action_not_found"


class DirtyTimeoutError(CallError, TimeoutError):
    """A limit passed. ``whose`` says which setting it was, ``phase`` where the call was (queued, running, stream)."""

    code = "timeout"
    gd1_name = "DirtyTimeoutError"

    def __init__(
        self,
        message: str = "Operation timed out",
        timeout: float | None = None,
        whose: str | None = None,
        phase: str | None = None,
    ) -> None:
        super().__init__(message, {"timeout": timeout, "whose": whose, "phase": phase})

    @property
    def timeout(self) -> float | None:
        return self.details.get("timeout")

    @property
    def whose(self) -> str | None:
        return self.details.get("whose")

    @property
    def phase(self) -> str | None:
        return self.details.get("phase")


class CallCancelled(CallError):
    """The call was cancelled by its caller, its event, or whoever may."""

    code = "cancelled"


class WorkerLost(CallError):
    """The worker died with the call in it. gunicorn's name for it is ``DirtyWorkerError``.

    ``started`` is True when the action may have begun, so that a side effect may have happened. ``oom_hint`` says of
    a SIGKILL that nobody here sent whether the kernel has killed processes for want of memory at that time.
    """

    code = "worker_lost"
    gd1_name = "DirtyWorkerError"

    def __init__(  # noqa: PLR0913 - a crash report: each is a fact of its own, all by keyword
        self,
        message: str,
        worker_id: int | None = None,
        traceback: str | None = None,
        *,
        reason: str | None = None,
        exit_code: int | None = None,
        signal: str | None = None,
        oom_hint: bool | None = None,
        started: bool = True,
        attempts: int = 1,
    ) -> None:
        super().__init__(
            message,
            {
                "worker_id": worker_id,
                "traceback": traceback,
                "reason": reason,
                "exit_code": exit_code,
                "signal": signal,
                "oom_hint": oom_hint,
                "started": started,
                "attempts": attempts,
            },
        )

    @property
    def worker_id(self) -> int | None:
        return self.details.get("worker_id")

    @property
    def traceback(self) -> str | None:
        return self.details.get("traceback")

    @property
    def reason(self) -> str | None:
        return self.details.get("reason")

    @property
    def exit_code(self) -> int | None:
        return self.details.get("exit_code")

    @property
    def signal(self) -> str | None:
        return self.details.get("signal")

    @property
    def oom_hint(self) -> bool | None:
        return self.details.get("oom_hint")

    @property
    def started(self) -> bool:
        return bool(self.details.get("started", True))

    @property
    def attempts(self) -> int:
        return int(self.details.get("attempts", 1))


class PoisonCall(WorkerLost):
    """The call killed several workers and will not be run again. ``history`` names each death."""

    code = "poison"

    @property
    def history(self) -> list[str]:
        return list(self.details.get("history", ()))


# --- try again later ----------------------------------------------------------------------------------------------


class Unavailable(DirtyError):
    """Not now. ``retry_after_s`` is our best guess of when, or None."""

    code = "unavailable"

    def __init__(
        self, message: str, details: Mapping[str, Any] | None = None, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, {**(details or {}), "retry_after_s": retry_after_s})

    @property
    def retry_after_s(self) -> float | None:
        return self.details.get("retry_after_s")


class DirtyNoWorkersAvailableError(Unavailable):
    """No living or coming worker holds the app."""

    code = "no_workers"
    gd1_name = "DirtyNoWorkersAvailableError"

    def __init__(self, app_path: str, message: str | None = None) -> None:
        super().__init__(message or f"No workers available for app: {app_path}", {"app_path": app_path})

    @property
    def app_path(self) -> str:
        return str(self.details.get("app_path", ""))


class QueueFull(Unavailable):
    """The queue is at its bound; the call was not accepted."""

    code = "queue_full"


class Draining(Unavailable):
    """We are shutting down and take no new work. ``started`` is True when the call may have begun before that."""

    code = "draining"

    @property
    def started(self) -> bool:
        return bool(self.details.get("started", False))


class GateClosed(Unavailable):
    """The ProcessLocker dropped the event; ``reason`` in the details says why."""

    code = "gate_closed"


class AppBroken(Unavailable):
    """The app's workers keep failing; calls fail fast. The boot report stands in the details."""

    code = "app_broken"
    #: what a web view written for gunicorn catches to say "later"
    gd1_name = "DirtyNoWorkersAvailableError"


class BootFailed(DirtyError):
    """Workers could not start.

    The details hold the boot report: step, app, duration_s, error_type, traceback, stderr.
    """

    code = "boot_failed"


# --- stash --------------------------------------------------------------------------------------------------------


class StashError(DirtyError):
    """A stash operation failed."""

    code = "stash"
    gd1_name = "StashError"


class StashTableNotFoundError(StashError):
    """There is no such table."""

    code = "stash_table"
    gd1_name = "StashTableNotFoundError"

    def __init__(self, table_name: str) -> None:
        super().__init__(f"Stash table not found: {table_name}", {"table_name": table_name})

    @property
    def table_name(self) -> str:
        return str(self.details.get("table_name", ""))


class StashKeyNotFoundError(StashError, KeyError):
    """There is no such key in the table."""

    code = "stash_key"
    gd1_name = "StashKeyNotFoundError"

    def __init__(self, table_name: str, key: object) -> None:
        super().__init__(f"Key not found in {table_name}: {key}", {"table_name": table_name, "key": key})

    @property
    def table_name(self) -> str:
        return str(self.details.get("table_name", ""))

    @property
    def key(self) -> Any:
        return self.details.get("key")


class StashFull(StashError):
    """The table is at its bound and evicts nothing."""

    code = "stash_full"


class StashConflict(StashError):
    """Something that the transaction had looked at was changed meanwhile; nothing of it was done: begin it again."""

    code = "stash_conflict"


class StashNotStored(StashError):
    """It was done in memory, and could not be written to disk; that is tried again."""

    code = "stash_not_stored"


class LeaseHeld(StashError):
    """Somebody else holds the lease, the lock, or all places of the semaphore."""

    code = "lease_held"


class LeaseLost(StashError):
    """The lease is no longer ours: stop what it guarded."""

    code = "lease_lost"


#: gunicorn's names for the same situations: moving here is an import change.
DirtyProtocolError = ProtocolError
DirtyWorkerError = WorkerLost

_BY_GD1_NAME: dict[str, type[DirtyError]] = {
    "DirtyError": DirtyError,
    "DirtyTimeoutError": DirtyTimeoutError,
    "DirtyConnectionError": DirtyConnectionError,
    "DirtyWorkerError": WorkerLost,
    "DirtyAppError": DirtyAppError,
    "DirtyAppNotFoundError": DirtyAppNotFoundError,
    "DirtyNoWorkersAvailableError": DirtyNoWorkersAvailableError,
    "DirtyProtocolError": ProtocolError,
    "StashError": StashError,
    "StashTableNotFoundError": StashTableNotFoundError,
    "StashKeyNotFoundError": StashKeyNotFoundError,
}
