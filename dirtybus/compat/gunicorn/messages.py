"""gunicorn's messages as the dicts that its own code passes around, and what makes them. Knows no socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dirtybus.compat.gunicorn.constants import MSG_TYPE_TO_STR
from dirtybus.errors import DirtyError
from dirtybus.protocol.gd1_messages import Kind

__all__ = [
    "error_fields",
    "make_chunk_message",
    "make_end_message",
    "make_error_response",
    "make_manage_message",
    "make_request",
    "make_response",
    "make_stash_message",
    "present",
]


def make_request(
    request_id: int | str,
    app_path: str,
    action: str,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the message that asks for an action."""
    fields = {"app_path": app_path, "action": action, "args": list(args or ()), "kwargs": dict(kwargs or {})}
    return _message(Kind.REQUEST, request_id, fields)


def make_response(request_id: int | str, result: Any) -> dict[str, Any]:
    """Return the message that gives a result."""
    return _message(Kind.RESPONSE, request_id, {"result": result})


def make_error_response(request_id: int | str, error: object) -> dict[str, Any]:
    """Return the message that says ``error``: an exception, or what its ``to_dict`` gave."""
    return _message(Kind.ERROR, request_id, {"error": error_fields(error)})


def make_chunk_message(request_id: int | str, data: Any) -> dict[str, Any]:
    """Return the message that carries one chunk of a stream."""
    return _message(Kind.CHUNK, request_id, {"data": data})


def make_end_message(request_id: int | str) -> dict[str, Any]:
    """Return the message that ends a stream."""
    return _message(Kind.END, request_id, {})


def make_stash_message(
    request_id: int | str, op: int, table: str, key: Any = None, value: Any = None, pattern: str | None = None
) -> dict[str, Any]:
    """Return the message that asks for a stash operation; what is None is left out."""
    optional = present(key=key, value=value, pattern=pattern)
    return _message(Kind.STASH, request_id, {"op": op, "table": table, **optional})


def make_manage_message(request_id: int | str, op: int, count: int = 1) -> dict[str, Any]:
    """Return the message that adds or removes workers."""
    return _message(Kind.MANAGE, request_id, {"op": op, "count": count})


def error_fields(error: object) -> dict[str, Any]:
    """Return an exception as plain values; a mapping is taken for such values already."""
    if isinstance(error, DirtyError):
        return error.to_dict()
    if isinstance(error, Mapping):
        return dict(error)
    return {"error_type": type(error).__name__, "message": str(error), "details": {}}


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _message(kind: Kind, request_id: int | str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": MSG_TYPE_TO_STR[kind], "id": request_id, **fields}
