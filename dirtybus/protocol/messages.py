"""The native messages: a typed head, an id, and a body that only caller and worker open.

On the wire a message is a frame (see `frames`) whose payload is::

    head length u32 | head: msgpack map | body

An empty head is left out (length 0). The heads stand in `heads`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.frames import HEADER, MAGIC, NATIVE, Buffer, Frame, header
from dirtybus.protocol.heads import (
    Cancel,
    Chunk,
    Drain,
    End,
    Goodbye,
    Head,
    Kind,
    Reply,
    StashAnswer,
    StashAsk,
    StatusAsk,
    Stop,
)
from dirtybus.protocol.spelling import spelled_out

__all__ = ["EMPTY_HEADS", "START", "Message", "decode_message", "encode_message", "read_head"]

_LENGTH: Final = struct.Struct(">I")
#: a frame's header and the length of its head, which every message begins with
START: Final = struct.Struct(HEADER.format + "I")


_HEADS: Final[dict[int, type[Head]]] = {head.kind: head for head in Head.__subclasses__()}
#: the heads that say all by their kind, and are left out
EMPTY_HEADS: Final[dict[int, Head]] = {
    h.kind: h() for h in (Reply, Chunk, End, Cancel, Drain, Goodbye, StashAsk, StashAnswer, StatusAsk, Stop)
}
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(head) for kind, head in _HEADS.items()}
_encode_head: Final = msgspec.msgpack.Encoder().encode
_JOINED_BYTES: Final = 16 * 1024


class Message(msgspec.Struct, frozen=True):
    """One message: ``id`` ties it to its call or question; ``body`` is whatever `codec` made, in parts."""

    head: Head
    id: int = 0
    body: Sequence[Buffer] = ()

    @property
    def payload(self) -> Buffer:
        """The body as one buffer."""
        return self.body[0] if len(self.body) == 1 else b"".join(self.body)


def encode_message(message: Message) -> list[Buffer]:
    """Return the frame's parts, to be written one after the other.

    Half a surrogate pair in a text, as in a file name that is no UTF-8, is spelled out with a backslash: an
    error or a log record must reach its reader.

    Raises:
        LocalProtocolError: the head holds what is no plain value, or a number does not fit its field.
    """
    head, body = message.head, message.body
    kind = head.kind
    packed = b"" if head == EMPTY_HEADS.get(kind) else _pack(head)
    length = _LENGTH.size + len(packed)
    for part in body:
        length += part.nbytes if isinstance(part, memoryview) else len(part)
    try:
        start = START.pack(MAGIC, NATIVE, kind, length, message.id, len(packed))
    except struct.error:
        header(NATIVE, kind, length, message.id)  # says which number does not fit
        raise
    # one small piece costs one copy and one plain send; several cost a gathering one
    return [start + packed, *body] if length > _JOINED_BYTES else [b"".join((start, packed, *body))]


def _pack(head: Head) -> bytes:
    try:
        try:
            return _encode_head(head)
        except UnicodeEncodeError:
            return _encode_head(spelled_out(msgspec.to_builtins(head)))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise LocalProtocolError(f"the head of a {head.kind.name} message cannot be written: {exc}") from exc


def decode_message(frame: Frame) -> Message:
    """Return what a version 2 frame says. Its body is a view of the frame's payload, not a copy.

    Raises:
        RemoteProtocolError: an unknown kind, or a head that is not what its kind has.
    """
    payload = frame.payload
    if len(payload) < _LENGTH.size:
        raise RemoteProtocolError(
            f"a message of kind {frame.kind:#04x} and {len(payload)} bytes has no room for its head"
        )
    (length,) = _LENGTH.unpack_from(payload)
    start = _LENGTH.size + length
    if start > len(payload):
        raise RemoteProtocolError(f"a head of {length} bytes goes past the end of its message, kind {frame.kind:#04x}")
    head = read_head(frame.kind, memoryview(payload)[_LENGTH.size : start])
    body: Sequence[Buffer] = (payload[start:],) if start < len(payload) else ()
    return Message(head, frame.id, body)


def read_head(kind: int, packed: memoryview) -> Head:
    """Return the head of a message of this kind.

    Raises:
        RemoteProtocolError: an unknown kind, or not what it has for a head.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise RemoteProtocolError(f"the peer sent a message of unknown kind {kind:#04x}")
    if not packed:
        empty = EMPTY_HEADS.get(kind)
        if empty is None:
            raise RemoteProtocolError(f"a {Kind(kind).name} message came without its head")
        return empty
    try:
        return decoder.decode(packed)
    except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
        raise RemoteProtocolError(f"the head of a {Kind(kind).name} message cannot be read: {exc}") from exc
