"""Cut a byte stream into frames: the 16-byte header, its limits, the receive buffer.

Must never learn what a frame means, nor where the bytes come from::

    magic "GD" | version u8 | kind u8 | payload length u32 | id u64 | payload
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec

from dirtybus.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["GD1", "HEADER", "LARGE_BYTES", "MAGIC", "NATIVE", "Buffer", "Frame", "FrameBuffer", "header"]

Buffer = bytes | bytearray | memoryview

MAGIC = b"GD"
HEADER = struct.Struct(">2sBBIQ")
#: The version byte of gunicorn's protocol, and of our own.
GD1 = 1
NATIVE = 2
#: A payload over this is gathered in memory of its own and handed out without another copy.
LARGE_BYTES = 64 * 1024


class Frame(msgspec.Struct, frozen=True):
    """One whole frame; ``payload`` is ``bytes``, or a writable view of its own memory when over `LARGE_BYTES`."""

    version: int
    kind: int
    id: int
    payload: memoryview | bytes


def header(version: int, kind: int, length: int, id: int) -> bytes:  # noqa: A002 - the field's name on the wire
    """Return the 16 bytes that announce a payload of ``length`` bytes.

    Raises:
        LocalProtocolError: a number does not fit its field.
    """
    try:
        return HEADER.pack(MAGIC, version, kind, length, id)
    except struct.error as exc:
        raise LocalProtocolError(
            f"a frame of version {version}, kind {kind}, {length} bytes and id {id} does not fit the header: {exc}"
        ) from exc


@dataclass(slots=True)
class _Incoming:
    """A large frame under way. Its memory follows what has arrived, not what was announced."""

    version: int
    kind: int
    id: int
    length: int
    memory: bytearray
    filled: int = 0

    def room(self, arrived_bytes: int) -> int:
        """Return the bytes that fit now; when none do, make room for those that arrived or half as much again."""
        if self.filled == len(self.memory) < self.length:
            growth = max(LARGE_BYTES, self.filled // 2, arrived_bytes)
            self.memory += bytes(min(growth, self.length - self.filled))
        return len(self.memory) - self.filled

    def take(self, data: memoryview) -> int:
        """Copy the head of ``data`` that belongs to this frame; return how many bytes that was."""
        taken = 0
        while taken < len(data) and (room := self.room(len(data) - taken)):
            piece = data[taken : taken + room]
            self.memory[self.filled : self.filled + len(piece)] = piece
            self.filled += len(piece)
            taken += len(piece)
        return taken


class FrameBuffer:
    """Collect received bytes and hand out whole frames, in time linear in the bytes received.

    Args:
        max_payload_bytes: a frame that announces more is refused when its header is complete.
        versions: the version bytes that are accepted.
    """

    def __init__(self, max_payload_bytes: int, *, versions: frozenset[int] = frozenset({GD1, NATIVE})) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._versions = versions
        # bytes while whole frames arrive, which cut fastest; a bytearray while a rest waits for more
        self._pending: bytes | bytearray = b""
        self._at = 0
        self._incoming: _Incoming | None = None

    def __len__(self) -> int:
        """Bytes received and not yet handed out."""
        filled = 0 if self._incoming is None else HEADER.size + self._incoming.filled
        return filled + len(self._pending) - self._at

    def __repr__(self) -> str:
        return f"<FrameBuffer {len(self)} bytes>"

    def feed(self, data: Buffer) -> None:
        """Add received bytes. They are copied unless they are ``bytes`` and nothing waits."""
        if self._incoming is not None:
            data = memoryview(data)
            data = data[self._incoming.take(data) :]
        if not len(data):
            return
        if self._at == len(self._pending):
            self._pending, self._at = bytes(data), 0
            return
        if isinstance(self._pending, bytes):
            self._pending, self._at = bytearray(memoryview(self._pending)[self._at :]), 0
        elif self._at:
            del self._pending[: self._at]
            self._at = 0
        self._pending += data

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None when more bytes are needed.

        Raises:
            RemoteProtocolError: not our magic, a version we do not speak, or a length over the limit. Raised when
                the header is complete, before its payload is waited for, and again at each further call.
        """
        if self._incoming is not None:
            return self._finish(self._incoming)
        start = self._at + HEADER.size
        if len(self._pending) < start:
            return None
        magic, version, kind, length, call_id = HEADER.unpack_from(self._pending, self._at)
        if magic != MAGIC or version not in self._versions or length > self._max_payload_bytes:
            raise self._refusal(magic, version, length)
        if length > LARGE_BYTES:
            return self._begin(_Incoming(version, kind, call_id, length, bytearray()), start)
        end = start + length
        if len(self._pending) < end:
            return None
        payload = self._pending[start:end]
        self._at = end
        return Frame(version, kind, call_id, payload if type(payload) is bytes else bytes(payload))

    def _begin(self, incoming: _Incoming, start: int) -> Frame | None:
        """Move to gathering a large frame: what has arrived of it leaves the pending bytes."""
        with memoryview(self._pending) as pending:
            self._at = start + incoming.take(pending[start:])
        if self._at == len(self._pending):
            self._pending, self._at = b"", 0
        self._incoming = incoming
        return self._finish(incoming)

    def _finish(self, incoming: _Incoming) -> Frame | None:
        if incoming.filled < incoming.length:
            return None
        self._incoming = None
        return Frame(incoming.version, incoming.kind, incoming.id, memoryview(incoming.memory))

    def _refusal(self, magic: bytes, version: int, length: int) -> RemoteProtocolError:
        if magic != MAGIC:
            return RemoteProtocolError(f"expected a frame to start with {MAGIC!r}, got {magic!r}", magic)
        if version not in self._versions:
            spoken = ", ".join(map(str, sorted(self._versions)))
            return RemoteProtocolError(f"the peer sent protocol version {version}; spoken here: {spoken}")
        return RemoteProtocolError(
            f"the peer announced a payload of {length} bytes, over the limit of {self._max_payload_bytes}; "
            f"send less, or raise the limit on the receiving side"
        )
