"""GD v1 messages to frames and back, as gunicorn spells them. Must never learn what carrying one out means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, TypeVar

from dirtybus.errors import EncodeError, RemoteProtocolError
from dirtybus.protocol import tlv
from dirtybus.protocol.frames import GD1, Frame, header
from dirtybus.protocol.gd1_messages import (
    Chunk,
    End,
    Error,
    Kind,
    Manage,
    Message,
    Request,
    Response,
    StashAsk,
    StatusAsk,
)
from dirtybus.protocol.tlv_format import DICT

__all__ = ["MAX_PAYLOAD_BYTES", "decode_fields", "decode_message", "encode_fields", "encode_message"]

T = TypeVar("T")

MAX_PAYLOAD_BYTES: Final = 64 * 1024 * 1024
_START: Final = Struct(">BI").pack
_SHOWN_CHARS: Final = 16 * 1024


# --- to frames ----------------------------------------------------------------------------------------------------


def encode_message(message: Message, id: int) -> bytes:  # noqa: A002 - the field's name on the wire
    """Return the frame that says ``message``.

    An error always fits: what its details hold and the format does not is sent as text.

    Raises:
        EncodeError: a value the format cannot carry, or more than `MAX_PAYLOAD_BYTES`; says where it stands.
        LocalProtocolError: ``id`` does not fit 64 bits.
    """
    match message:
        case Request(app, action, args, kwargs):
            fields = {"app_path": app, "action": action, "args": list(args), "kwargs": dict(kwargs)}
            return encode_fields(Kind.REQUEST, id, fields)
        case Response(result):
            return encode_fields(Kind.RESPONSE, id, {"result": result})
        case Error(error):
            return _encode_error(error, id)
        case Chunk(value):
            return encode_fields(Kind.CHUNK, id, {"data": value})
        case End():
            return header(GD1, Kind.END, 0, id)
        case StashAsk(verb, table, key, value, pattern):
            optional = {"key": key, "value": value, "pattern": pattern}
            present = {name: item for name, item in optional.items() if item is not None}
            return encode_fields(Kind.STASH, id, {"op": verb, "table": table, **present})
        case StatusAsk():
            return header(GD1, Kind.STATUS, 0, id)
        case Manage(verb, count):
            return encode_fields(Kind.MANAGE, id, {"op": verb, "count": count})


def encode_fields(kind: int, id: int, fields: Mapping[str, object]) -> bytes:  # noqa: A002 - as in encode_message
    """Return a frame whose payload is the dict ``fields``. Raises as `encode_message`."""
    # each value is its own root, so that places read `args[0]`
    values = {name: tlv.encode(value, root=name) for name, value in fields.items()}
    parts = [_START(DICT, len(values))]
    for name, value in values.items():
        parts += (tlv.encode(name), value)
    length = sum(map(len, parts))
    if length > MAX_PAYLOAD_BYTES:
        name = max(values, key=lambda name: len(values[name]))
        raise EncodeError(f"{name}: {length} bytes are over the {MAX_PAYLOAD_BYTES} of GD v1; send it in parts", name)
    return b"".join([header(GD1, kind, length, id), *parts])


def _encode_error(error: Mapping[str, Any], id: int) -> bytes:  # noqa: A002 - as in encode_message
    try:
        return encode_fields(Kind.ERROR, id, {"error": dict(error)})
    except EncodeError:
        details = error.get("details")
        said = details if isinstance(details, Mapping) else {}
        plain = {
            "error_type": _shown(error.get("error_type", "DirtyError")),
            "message": _shown(error.get("message", "")),
            "details": {_shown(name): value if _is_plain(value) else _shown(value) for name, value in said.items()},
        }
        return encode_fields(Kind.ERROR, id, {"error": plain})


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63)


def _shown(value: object) -> str:
    """Return short text that is valid Unicode, whatever ``value`` is."""
    text = value if isinstance(value, str) else repr(value)
    return text[:_SHOWN_CHARS].encode("utf-8", "backslashreplace").decode()


# --- from frames --------------------------------------------------------------------------------------------------


def decode_message(frame: Frame) -> Message:
    """Return what a version 1 frame says.

    Raises:
        RemoteProtocolError: an unknown kind, a payload that is not what its kind has, or malformed TLV.
    """
    read = _READERS.get(frame.kind)
    if read is None:
        raise RemoteProtocolError(f"the peer sent a GD v1 message of unknown kind {frame.kind:#04x}")
    return read(_Fields(frame.kind, decode_fields(frame)))


def decode_fields(frame: Frame) -> dict[str, Any]:
    """Return the payload of a version 1 frame: a dict, empty when there is none.

    Raises:
        RemoteProtocolError: it is something else.
    """
    if not len(frame.payload):
        return {}
    fields = tlv.decode(frame.payload)
    if not isinstance(fields, dict):
        raise RemoteProtocolError(f"the payload of a GD v1 message must be a dict, not a {type(fields).__name__}")
    return fields


class _Fields:
    """The payload of one message, read field by field."""

    def __init__(self, kind: int, fields: Mapping[str, Any]) -> None:
        self._kind = kind
        self._fields = fields

    def get(self, name: str) -> Any:
        return self._fields.get(name)

    def typed(self, name: str, kind: type[T], default: T) -> T:
        """Return the field, or ``default`` when it is missing or None."""
        value = self._fields.get(name)
        if value is None:
            return default
        # bool is an int to isinstance, but no count
        if not isinstance(value, kind) or isinstance(value, bool):
            wanted, got = kind.__name__, type(value).__name__
            raise RemoteProtocolError(f"{Kind(self._kind).name}: {name} must be of type {wanted}, not {got}")
        return value


def _read_request(fields: _Fields) -> Request:
    return Request(
        fields.typed("app_path", str, ""),
        fields.typed("action", str, ""),
        fields.typed("args", list, []),
        fields.typed("kwargs", dict, {}),
    )


def _read_stash(fields: _Fields) -> StashAsk:
    return StashAsk(
        fields.typed("op", int, 0),
        fields.typed("table", str, ""),
        fields.get("key"),
        fields.get("value"),
        fields.typed("pattern", str, "") or None,  # gunicorn takes empty for none
    )


_READERS: Final[dict[int, Callable[[_Fields], Message]]] = {
    Kind.REQUEST: _read_request,
    Kind.RESPONSE: lambda fields: Response(fields.get("result")),
    Kind.ERROR: lambda fields: Error(fields.typed("error", dict, {})),
    Kind.CHUNK: lambda fields: Chunk(fields.get("data")),
    Kind.END: lambda _: End(),
    Kind.STASH: _read_stash,
    Kind.STATUS: lambda _: StatusAsk(),
    Kind.MANAGE: lambda fields: Manage(fields.typed("op", int, 0), max(1, fields.typed("count", int, 1))),
}
