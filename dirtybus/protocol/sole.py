"""A frame that comes alone, as nearly all do: read in one step. Knows no stream of frames."""

from __future__ import annotations

from dirtybus.protocol.frames import HEADER, LARGE_BYTES, MAGIC, NATIVE
from dirtybus.protocol.messages import EMPTY_HEADS, START, Message, read_head

__all__ = ["decode_sole"]

_START_BYTES = START.size
_HEADER_BYTES = HEADER.size


def decode_sole(received: bytes) -> Message | None:
    """Return the message when ``received`` is one whole small frame and nothing else.

    None says nothing: the long way, by `FrameBuffer` and `decode_message`, finds out what it is, or what is wrong.

    Raises:
        RemoteProtocolError: an unknown kind, or a head that is not what its kind has.
    """
    size = len(received)
    if not _START_BYTES <= size <= LARGE_BYTES:
        return None
    magic, version, kind, length, call_id, head_length = START.unpack_from(received)
    at = _START_BYTES + head_length
    if length != size - _HEADER_BYTES or at > size or version != NATIVE or magic != MAGIC:
        return None
    head = None if head_length else EMPTY_HEADS.get(kind)
    if head is None:
        head = read_head(kind, memoryview(received)[_START_BYTES:at])
    return Message(head, call_id, (received[at:],) if at < size else ())
