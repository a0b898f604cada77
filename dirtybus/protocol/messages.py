"""The native messages: a typed head, an id, and a body that only caller and worker open.

On the wire a message is a frame (see `frames`) whose payload is::

    head length u32 | head: msgpack map | body

An empty head is left out (length 0). Kinds and field names are for ever: add, never renumber or rename.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.frames import HEADER, MAGIC, NATIVE, Buffer, Frame, header
from dirtybus.protocol.spelling import spelled_out

__all__ = [
    "EMPTY_HEADS",
    "START",
    "Answer",
    "Boot",
    "BootFailed",
    "Booting",
    "Call",
    "Cancel",
    "Chunk",
    "Credit",
    "Drain",
    "End",
    "Failure",
    "Goodbye",
    "Head",
    "Hello",
    "Inspect",
    "Inspected",
    "Kind",
    "Log",
    "Manage",
    "Message",
    "Progress",
    "Ready",
    "Refusal",
    "Reply",
    "StashAnswer",
    "StashAsk",
    "StatusAsk",
    "Stop",
    "decode_message",
    "encode_message",
    "read_head",
]

_LENGTH: Final = struct.Struct(">I")
#: a frame's header and the length of its head, which every message begins with
START: Final = struct.Struct(HEADER.format + "I")


class Kind(enum.IntEnum):
    """What a frame of version 2 is. Numbers up to 0x12 mean in GD v1 what they mean here, where it has them."""

    CALL = 0x01
    REPLY = 0x02
    FAILURE = 0x03
    CHUNK = 0x04
    END = 0x05
    CANCEL = 0x06
    CREDIT = 0x07
    PROGRESS = 0x08
    DRAIN = 0x09
    GOODBYE = 0x0A
    STASH = 0x10
    STATUS = 0x11
    MANAGE = 0x12
    ANSWER = 0x13
    REFUSAL = 0x14
    STASH_ANSWER = 0x15
    HELLO = 0x20
    INSPECT = 0x21
    INSPECTED = 0x22
    BOOT = 0x23
    READY = 0x24
    BOOT_FAILED = 0x25
    STOP = 0x26
    LOG = 0x27
    BOOTING = 0x28


class Head(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all heads. Unknown fields of a newer peer are skipped."""

    kind: ClassVar[Kind]


class Call(Head, frozen=True):
    """Run ``action`` of ``app`` with the body's ``[args, kwargs]``.

    ``time_left_s`` is what remains of the caller's deadline (None: none given; the app's own applies), ``window``
    how many chunks may be sent before the first credit, ``attempt`` counts runs from 1. Of the calls that wait, those
    with the highest ``priority`` run first; None leaves it to the action.
    """

    kind = Kind.CALL
    app: str
    action: str
    time_left_s: float | None = None
    window: int = 32
    attempt: int = 1
    priority: int | None = None


class Reply(Head, frozen=True):
    """The action returned; the body is its value."""

    kind = Kind.REPLY


class Failure(Head, frozen=True):
    """There will be no (further) result; ``error`` is `DirtyError.to_dict`."""

    kind = Kind.FAILURE
    error: Mapping[str, Any]


class Chunk(Head, frozen=True):
    """The action yielded; the body is the value."""

    kind = Kind.CHUNK


class End(Head, frozen=True):
    """The generator is exhausted."""

    kind = Kind.END


class Cancel(Head, frozen=True):
    """The caller does not wait any more."""

    kind = Kind.CANCEL


class Credit(Head, frozen=True):
    """The reader took ``chunks`` chunks, so as many more may be sent."""

    kind = Kind.CREDIT
    chunks: int


class Progress(Head, frozen=True):
    """How far the action is."""

    kind = Kind.PROGRESS
    done: float
    total: float | None = None
    text: str = ""


class Drain(Head, frozen=True):
    """The sender takes no new calls; what was accepted is answered."""

    kind = Kind.DRAIN


class Goodbye(Head, frozen=True):
    """Every call that the sender took here has had its last word, and it closes: one without a word was never read."""

    kind = Kind.GOODBYE


# --- questions that are answered by the arbiter itself ------------------------------------------------------------


class StashAsk(Head, frozen=True):
    """One operation on the stash: what it is stands in the body."""

    kind = Kind.STASH


class StatusAsk(Head, frozen=True):
    """What is going on?"""

    kind = Kind.STATUS


class Manage(Head, frozen=True):
    """Change something: ``verb`` is scale, reload or stop; ``arguments`` go with it."""

    kind = Kind.MANAGE
    verb: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Answer(Head, frozen=True):
    """The answer to a question: plain values in ``value``, and perhaps a body."""

    kind = Kind.ANSWER
    value: Any = None


class StashAnswer(Head, frozen=True):
    """What an operation on the stash came to: in the body."""

    kind = Kind.STASH_ANSWER


class Refusal(Head, frozen=True):
    """The question has no answer; ``error`` is `DirtyError.to_dict`."""

    kind = Kind.REFUSAL
    error: Mapping[str, Any]


class Hello(Head, frozen=True):
    """First words of either side: who it is and what it speaks."""

    kind = Kind.HELLO
    role: str
    pid: int
    version: str
    max_payload_bytes: int = 0
    #: of an arbiter: ``[app, action]`` for each that may be run twice
    idempotent: Sequence[Sequence[str]] = ()


class Inspect(Head, frozen=True):
    """Import these apps, looking along ``path``, and report their class attributes; such a child never serves."""

    kind = Kind.INSPECT
    apps: Sequence[str]
    path: Sequence[str] = ()


class Inspected(Head, frozen=True):
    """What the apps say of themselves: `AppInfo` as plain values, in the order asked."""

    kind = Kind.INSPECTED
    apps: Sequence[Mapping[str, Any]]


class Boot(Head, frozen=True):
    """Become worker ``worker``: load ``apps``, looking along ``path``, then serve."""

    kind = Kind.BOOT
    worker: int
    apps: Sequence[str]
    path: Sequence[str] = ()
    threads: int = 1
    async_concurrency: int = 1000
    compute_threads: int | None = 1
    owner_pid: int = 0
    post_fork: str | None = None
    worker_init: str | None = None
    log_level: int = 20


class Booting(Head, frozen=True):
    """The worker begins this step of its boot: what it was at, should it die or hang there."""

    kind = Kind.BOOTING
    step: str
    app: str | None = None


class Ready(Head, frozen=True):
    """All apps are initialised."""

    kind = Kind.READY
    boot_s: float


class BootFailed(Head, frozen=True):
    """The boot report: at which step, of which app, after how long, and the error."""

    kind = Kind.BOOT_FAILED
    step: str
    app: str | None
    duration_s: float
    error: Mapping[str, Any]


class Stop(Head, frozen=True):
    """Finish what runs, close the apps, leave."""

    kind = Kind.STOP


class Log(Head, frozen=True):
    """One log record of a worker; the frame's id is the call it belongs to, or 0."""

    kind = Kind.LOG
    level: int
    text: str
    logger: str = ""
    app: str | None = None
    traceback: str | None = None


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
