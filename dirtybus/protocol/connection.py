"""One end of a native link: bytes in, messages out; messages in, bytes out. No input or output of its own.

What may follow what stands in the tables below and nowhere else, so neither side can cheat::

    connection.receive_data(sock.recv(65536))          # b"" says that the peer closed
    while (event := connection.next_event()) is not NEED_DATA: ...
    for part in connection.send(Message(Call(...), id)): sock.sendall(part)
"""

from __future__ import annotations

import enum
from typing import Final, Literal

from dirtybus.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dirtybus.protocol.frames import NATIVE, Buffer, FrameBuffer
from dirtybus.protocol.heads import Kind
from dirtybus.protocol.messages import Message, decode_message, encode_message
from dirtybus.protocol.sole import decode_sole

__all__ = ["CLOSED", "NEED_DATA", "CallState", "Connection", "Side"]


class _Signal(enum.Enum):
    NEED_DATA = "need data"
    CLOSED = "closed"


NEED_DATA: Final = _Signal.NEED_DATA
CLOSED: Final = _Signal.CLOSED


class Side(enum.Enum):
    """Who starts calls on this link: client → arbiter → worker."""

    CALLER = "caller"
    CALLEE = "callee"

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is Python code


class CallState(enum.Enum):
    """The life of one call on one link. A call that is not in the table is IDLE."""

    IDLE = "idle"
    OPEN = "open"
    STREAMING = "streaming"
    CANCELLING = "cancelling"

    __hash__ = object.__hash__  # as above


# Done calls are forgotten (None), so a link's memory is bounded by its open calls.
_DONE: Final = None

_CALLS: Final[dict[Side, dict[CallState, dict[Kind, CallState | None]]]] = {
    Side.CALLER: {
        CallState.IDLE: {
            Kind.CALL: CallState.OPEN,
            # a cancel or a credit may cross the last word on the wire: not an error
            Kind.CANCEL: _DONE,
            Kind.CREDIT: _DONE,
        },
        CallState.OPEN: {Kind.CANCEL: CallState.CANCELLING, Kind.CREDIT: CallState.OPEN},
        CallState.STREAMING: {Kind.CANCEL: CallState.CANCELLING, Kind.CREDIT: CallState.STREAMING},
        CallState.CANCELLING: {Kind.CANCEL: CallState.CANCELLING, Kind.CREDIT: CallState.CANCELLING},
    },
    Side.CALLEE: {
        CallState.IDLE: {},
        CallState.OPEN: {
            Kind.REPLY: _DONE,
            Kind.FAILURE: _DONE,
            Kind.END: _DONE,
            Kind.CHUNK: CallState.STREAMING,
            Kind.PROGRESS: CallState.OPEN,
        },
        CallState.STREAMING: {
            Kind.CHUNK: CallState.STREAMING,
            Kind.PROGRESS: CallState.STREAMING,
            Kind.END: _DONE,
            Kind.FAILURE: _DONE,
        },
        CallState.CANCELLING: {
            Kind.CHUNK: CallState.CANCELLING,
            Kind.PROGRESS: CallState.CANCELLING,
            Kind.REPLY: _DONE,
            Kind.END: _DONE,
            Kind.FAILURE: _DONE,
        },
    },
}

_CALL_KINDS: Final = frozenset(kind for states in _CALLS.values() for moves in states.values() for kind in moves)
#: Either side may ask; the other answers each question once.
_ASKS: Final = frozenset({Kind.STASH, Kind.STATUS, Kind.MANAGE})
_ANSWERS: Final = frozenset({Kind.ANSWER, Kind.STASH_ANSWER, Kind.REFUSAL})
#: The rest concerns the link as a whole.
_FREE: Final[dict[Side, frozenset[Kind]]] = {
    Side.CALLER: frozenset({Kind.HELLO, Kind.INSPECT, Kind.BOOT, Kind.STOP, Kind.RUN_BATCH}),
    Side.CALLEE: frozenset(
        {
            Kind.HELLO,
            Kind.INSPECTED,
            Kind.BOOTING,
            Kind.READY,
            Kind.BOOT_FAILED,
            Kind.LOG,
            Kind.DRAIN,
            Kind.GOODBYE,
        }
    ),
}


class Connection:
    """Check and translate everything that crosses one link.

    Args:
        side: which end we are.
        max_payload_bytes: the largest payload either side may send.
    """

    def __init__(self, side: Side, max_payload_bytes: int) -> None:
        self.side = side
        self._them = Side.CALLEE if side is Side.CALLER else Side.CALLER
        self._max = max_payload_bytes
        self._buffer = FrameBuffer(max_payload_bytes, versions=frozenset({NATIVE}))
        #: no part of a message waits in the buffer
        self._is_between = True
        self._peer_closed = False
        self._broken: RemoteProtocolError | None = None
        self._calls: dict[int, CallState] = {}
        self._asked: dict[Side, set[int]] = {Side.CALLER: set(), Side.CALLEE: set()}

    @property
    def open_calls(self) -> frozenset[int]:
        """The ids of calls without a last word yet."""
        return frozenset(self._calls)

    def receive_data(self, received: Buffer) -> None:
        """Take what the socket gave. ``b""`` says that the peer closed its side."""
        if received:
            self._is_between = False
            self._buffer.feed(received)
        else:
            self._peer_closed = True

    def receive_sole(self, received: bytes) -> Message | None:
        """Return the message when ``received`` is just that, whole; None when it must go to `receive_data`.

        The short way through `receive_data` and two `next_event` for what a socket gives nearly always.

        Raises:
            RemoteProtocolError: as `next_event`.
        """
        if not self._is_between or len(received) > self._max or self._broken is not None:
            return None
        try:
            message = decode_sole(received)
            if message is not None:
                self._advance(self._them, message, RemoteProtocolError)
        except RemoteProtocolError as exc:
            self._broken = exc
            raise
        return message

    def next_event(self) -> Message | Literal[_Signal.NEED_DATA, _Signal.CLOSED]:
        """Return the next message, ``NEED_DATA`` or ``CLOSED``.

        Raises:
            RemoteProtocolError: the peer broke the protocol, or closed in the middle of a frame. Every later
                call raises it again.
        """
        if self._broken is not None:
            raise self._broken
        try:
            frame = self._buffer.next_frame()
            if frame is None:
                return self._without_frame()
            message = decode_message(frame)
            self._advance(self._them, message, RemoteProtocolError)
        except RemoteProtocolError as exc:
            self._broken = exc
            raise
        return message

    def send(self, message: Message) -> list[Buffer]:
        """Return the bytes of ``message``, in parts.

        Raises:
            LocalProtocolError: it may not be sent now, or is over the limit. Nothing changes: mend the caller.
        """
        parts = encode_message(message)
        length = len(parts[0])
        if len(parts) > 1:
            for part in parts[1:]:
                length += part.nbytes if isinstance(part, memoryview) else len(part)
        if length > self._max:
            raise LocalProtocolError(
                f"a message of {length} bytes is over the limit of {self._max}; raise max_payload_bytes or send less"
            )
        self._advance(self.side, message, LocalProtocolError)
        return parts

    def _without_frame(self) -> Literal[_Signal.NEED_DATA, _Signal.CLOSED]:
        if not self._peer_closed:
            self._is_between = not len(self._buffer)
            return NEED_DATA
        if len(self._buffer):
            raise RemoteProtocolError(f"the peer closed with {len(self._buffer)} bytes of an unfinished message")
        return CLOSED

    def _advance(self, side: Side, message: Message, error: type[ProtocolError]) -> None:
        kind = message.head.kind
        if kind in _CALL_KINDS:
            self._advance_call(side, kind, message.id, error)
        elif kind in _ASKS:
            asked = self._asked[side]
            if message.id in asked:
                raise error(f"question {message.id} was asked before and has no answer yet")
            asked.add(message.id)
        elif kind in _ANSWERS:
            asked = self._asked[Side.CALLEE if side is Side.CALLER else Side.CALLER]
            if message.id not in asked:
                raise error(f"{kind.name} to question {message.id}, which nobody asked")
            asked.discard(message.id)
        elif kind not in _FREE[side]:
            raise error(f"the {side.value} may not send {kind.name}")

    def _advance_call(self, side: Side, kind: Kind, call_id: int, error: type[ProtocolError]) -> None:
        state = self._calls.get(call_id, CallState.IDLE)
        moves = _CALLS[side][state]
        if kind not in moves:
            raise error(f"the {side.value} may not send {kind.name} on call {call_id}, which is {state.value}")
        after = moves[kind]
        if after is _DONE:
            self._calls.pop(call_id, None)
        else:
            self._calls[call_id] = after
