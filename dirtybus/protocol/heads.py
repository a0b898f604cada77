"""The heads of the native messages: one class for each kind, its fields as the wire has them.

Kinds and field names are for ever: add, never renumber or rename.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

__all__ = [
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
    "Progress",
    "Ready",
    "Refusal",
    "Reply",
    "RunBatch",
    "StashAnswer",
    "StashAsk",
    "StatusAsk",
    "Stop",
]


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
    RUN_BATCH = 0x29


class Head(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all heads. Unknown fields of a newer peer are skipped."""

    kind: ClassVar[Kind]


class Call(Head, frozen=True):
    """Run ``action`` of ``app`` with the body's ``[args, kwargs]``.

    ``time_left_s`` is what remains of the caller's deadline (None: none given; the app's own applies), ``window``
    how many chunks may be sent before the first credit, ``attempt`` counts runs from 1. Of the calls that wait, those
    with the highest ``priority`` run first; None leaves it to the action. Between owner and worker, a call of ``batch``
    waits for the `RunBatch` of that number; 0 for none.
    """

    kind = Kind.CALL
    app: str
    action: str
    time_left_s: float | None = None
    window: int = 32
    attempt: int = 1
    priority: int | None = None
    batch: int = 0


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


class RunBatch(Head, frozen=True):
    """The calls of ``batch`` that came are all there are: run them as one."""

    kind = Kind.RUN_BATCH
    batch: int


class Log(Head, frozen=True):
    """One log record of a worker; the frame's id is the call it belongs to, or 0."""

    kind = Kind.LOG
    level: int
    text: str
    logger: str = ""
    app: str | None = None
    traceback: str | None = None
