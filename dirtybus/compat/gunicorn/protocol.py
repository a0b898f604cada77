"""`gunicorn.dirty.protocol`: its constants, builders, and reading and writing of messages on a socket or stream.

Opens no connection. Needs neither asyncio nor socket: any object with gunicorn's few methods will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from dirtybus.compat.gunicorn import constants
from dirtybus.compat.gunicorn.constants import *  # noqa: F403 - the same names stand in gunicorn's module
from dirtybus.compat.gunicorn.constants import (
    HEADER_SIZE,
    MAGIC,
    MAX_MESSAGE_SIZE,
    MSG_TYPE_FROM_STR,
    MSG_TYPE_TO_STR,
    VERSION,
)
from dirtybus.compat.gunicorn.messages import (
    error_fields,
    make_chunk_message,
    make_end_message,
    make_error_response,
    make_manage_message,
    make_request,
    make_response,
    make_stash_message,
    present,
)
from dirtybus.errors import DirtyProtocolError, EncodeError
from dirtybus.protocol.frames import GD1, HEADER, Frame, header
from dirtybus.protocol.gd1 import decode_fields, encode_fields
from dirtybus.protocol.gd1_messages import Kind

__all__ = [
    "BinaryProtocol",
    "DirtyProtocol",
    "make_chunk_message",
    "make_end_message",
    "make_error_response",
    "make_manage_message",
    "make_request",
    "make_response",
    "make_stash_message",
]
__all__ += constants.__all__

_ID_MASK: Final = 2**64 - 1
_RECEIVE_BYTES: Final = 256 * 1024


class _Socket(Protocol):
    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...


class _Reader(Protocol):
    async def readexactly(self, n: int) -> bytes: ...


class _Writer(Protocol):
    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...


class BinaryProtocol:
    """gunicorn's messages to bytes and back, all static. A message is a dict with ``type``, ``id`` and its fields."""

    HEADER_SIZE = HEADER_SIZE
    MAX_MESSAGE_SIZE = MAX_MESSAGE_SIZE

    MSG_TYPE_REQUEST = constants.MSG_TYPE_REQUEST_STR
    MSG_TYPE_RESPONSE = constants.MSG_TYPE_RESPONSE_STR
    MSG_TYPE_ERROR = constants.MSG_TYPE_ERROR_STR
    MSG_TYPE_CHUNK = constants.MSG_TYPE_CHUNK_STR
    MSG_TYPE_END = constants.MSG_TYPE_END_STR
    MSG_TYPE_STASH = constants.MSG_TYPE_STASH_STR
    MSG_TYPE_STATUS = constants.MSG_TYPE_STATUS_STR
    MSG_TYPE_MANAGE = constants.MSG_TYPE_MANAGE_STR

    # --- headers ---

    @staticmethod
    def encode_header(msg_type: int, request_id: int, payload_length: int) -> bytes:
        """Return the 16 bytes that stand before a payload."""
        return header(GD1, msg_type, payload_length, request_id)

    @staticmethod
    def decode_header(data: bytes) -> tuple[int, int, int]:
        """Return the message type, the request id and the length of the payload.

        Raises:
            DirtyProtocolError: it is no header of this protocol, or announces too much.
        """
        if len(data) < HEADER_SIZE:
            raise DirtyProtocolError(f"Header too short: {len(data)} bytes, expected {HEADER_SIZE}", data)
        magic, version, kind, length, request_id = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise DirtyProtocolError(f"Invalid magic: {magic!r}, expected {MAGIC!r}", data[:20])
        if version != VERSION:
            raise DirtyProtocolError(f"Unsupported protocol version: {version}, expected {VERSION}", data[:20])
        if kind not in MSG_TYPE_TO_STR:
            raise DirtyProtocolError(f"Unknown message type: 0x{kind:02x}", data[:20])
        if length > MAX_MESSAGE_SIZE:
            raise DirtyProtocolError(f"Message too large: {length} bytes (max: {MAX_MESSAGE_SIZE})")
        return kind, request_id, length

    # --- messages to bytes; each raises DirtyProtocolError for a value that the format cannot carry ---

    @staticmethod
    def encode_request(
        request_id: int,
        app_path: str,
        action: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the bytes of a request."""
        fields = {"app_path": app_path, "action": action, "args": list(args or ()), "kwargs": dict(kwargs or {})}
        return _encode(Kind.REQUEST, request_id, fields)

    @staticmethod
    def encode_response(request_id: int, result: Any) -> bytes:
        """Return the bytes of a result."""
        return _encode(Kind.RESPONSE, request_id, {"result": result})

    @staticmethod
    def encode_error(request_id: int, error: object) -> bytes:
        """Return the bytes of an error: an exception, or what its ``to_dict`` gave."""
        return _encode(Kind.ERROR, request_id, {"error": error_fields(error)})

    @staticmethod
    def encode_chunk(request_id: int, data: Any) -> bytes:
        """Return the bytes of one chunk."""
        return _encode(Kind.CHUNK, request_id, {"data": data})

    @staticmethod
    def encode_end(request_id: int) -> bytes:
        """Return the bytes of the end of a stream."""
        return header(GD1, Kind.END, 0, request_id)

    @staticmethod
    def encode_status(request_id: int) -> bytes:
        """Return the bytes of a question for the status."""
        return header(GD1, Kind.STATUS, 0, request_id)

    @staticmethod
    def encode_manage(request_id: int, op: int, count: int = 1) -> bytes:
        """Return the bytes that add or remove workers."""
        return _encode(Kind.MANAGE, request_id, {"op": op, "count": count})

    @staticmethod
    def encode_stash(
        request_id: int, op: int, table: str, key: Any = None, value: Any = None, pattern: str | None = None
    ) -> bytes:
        """Return the bytes of a stash operation; what is None is left out."""
        fields = {"op": op, "table": table, **present(key=key, value=value, pattern=pattern)}
        return _encode(Kind.STASH, request_id, fields)

    # --- bytes to messages ---

    @staticmethod
    def decode_message(data: bytes) -> tuple[str, int, dict[str, Any]]:
        """Return the type's name, the request id and the fields of the message at the start of ``data``.

        Raises:
            DirtyProtocolError: it is malformed, or not all there.
        """
        kind, request_id, length = BinaryProtocol.decode_header(data)
        end = HEADER_SIZE + length
        if len(data) < end:
            raise DirtyProtocolError(f"Incomplete message: expected {end} bytes, got {len(data)}", data[:50])
        return MSG_TYPE_TO_STR[kind], request_id, decode_fields(Frame(GD1, kind, request_id, data[HEADER_SIZE:end]))

    @staticmethod
    def read_message(sock: _Socket) -> dict[str, Any]:
        """Read one message from a blocking socket.

        Raises:
            DirtyProtocolError: it is malformed, or the peer closed.
            TimeoutError: the socket's own timeout passed.
        """
        kind, request_id, length = BinaryProtocol.decode_header(_receive(sock, HEADER_SIZE))
        return _message(kind, request_id, _receive(sock, length) if length else b"")

    @staticmethod
    def write_message(sock: _Socket, message: Mapping[str, Any]) -> None:
        """Write one message to a blocking socket.

        Raises:
            DirtyProtocolError: its type is unknown, or a value cannot be carried; nothing was written.
            OSError: the socket failed.
        """
        sock.sendall(_encode_dict(message))

    @staticmethod
    async def read_message_async(reader: _Reader) -> dict[str, Any]:
        """Read one message from an asyncio stream.

        Raises:
            DirtyProtocolError: it is malformed, or the peer closed in the middle of it.
            EOFError: (`asyncio.IncompleteReadError`) the peer closed before it.
        """
        kind, request_id, length = BinaryProtocol.decode_header(await _read(reader, HEADER_SIZE, "header"))
        return _message(kind, request_id, await _read(reader, length, "payload") if length else b"")

    @staticmethod
    async def write_message_async(writer: _Writer, message: Mapping[str, Any]) -> None:
        """Write one message to an asyncio stream and wait for room. Raises as `write_message`."""
        writer.write(_encode_dict(message))
        await writer.drain()


#: gunicorn's older name.
DirtyProtocol = BinaryProtocol


def _encode(kind: Kind, request_id: int, fields: Mapping[str, Any]) -> bytes:
    try:
        return encode_fields(kind, request_id, fields)
    except EncodeError as exc:
        raise DirtyProtocolError(f"Unsupported type for TLV encoding: {exc}") from exc


def _encode_dict(message: Mapping[str, Any]) -> bytes:
    name = message.get("type")
    kind = MSG_TYPE_FROM_STR.get(str(name))
    if kind is None:
        raise DirtyProtocolError(f"Unknown message type: {name}")
    request_id = message.get("id", 0)
    if isinstance(request_id, str):
        request_id = hash(request_id) & _ID_MASK  # gunicorn's ids were text once
    make, names = _FIELDS[kind]
    fields = {field: message[field] for field in names if field in message}
    data: bytes = make(request_id, **{**_DEFAULTS.get(kind, {}), **fields})
    return data


_FIELDS: Final[Mapping[int, tuple[Any, tuple[str, ...]]]] = {
    Kind.REQUEST: (BinaryProtocol.encode_request, ("app_path", "action", "args", "kwargs")),
    Kind.RESPONSE: (BinaryProtocol.encode_response, ("result",)),
    Kind.ERROR: (BinaryProtocol.encode_error, ("error",)),
    Kind.CHUNK: (BinaryProtocol.encode_chunk, ("data",)),
    Kind.END: (BinaryProtocol.encode_end, ()),
    Kind.STASH: (BinaryProtocol.encode_stash, ("op", "table", "key", "value", "pattern")),
    Kind.STATUS: (BinaryProtocol.encode_status, ()),
    Kind.MANAGE: (BinaryProtocol.encode_manage, ("op", "count")),
}
#: What gunicorn takes for a field that a message lacks.
_DEFAULTS: Final[Mapping[int, Mapping[str, Any]]] = {
    Kind.REQUEST: {"app_path": "", "action": ""},
    Kind.RESPONSE: {"result": None},
    Kind.ERROR: {"error": {}},
    Kind.CHUNK: {"data": None},
    Kind.STASH: {"op": None, "table": ""},
    Kind.MANAGE: {"op": None},
}


def _message(kind: int, request_id: int, payload: bytes) -> dict[str, Any]:
    return {"type": MSG_TYPE_TO_STR[kind], "id": request_id, **decode_fields(Frame(GD1, kind, request_id, payload))}


def _receive(sock: _Socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = sock.recv(min(size - len(received), _RECEIVE_BYTES))
        if not part:
            got = f" after {len(received)} bytes, expected {size}" if received else ""
            raise DirtyProtocolError(f"Connection closed{got}", bytes(received[:50]) or None)
        received += part
    return bytes(received)


async def _read(reader: _Reader, size: int, what: str) -> bytes:
    try:
        return await reader.readexactly(size)
    except EOFError as exc:
        partial: bytes = getattr(exc, "partial", b"")
        if what == "header" and not partial:
            raise
        raise DirtyProtocolError(f"Incomplete {what}: got {len(partial)} bytes, expected {size}", partial) from exc
