"""What a caller writes down of each call: what it asked, what it was told, and when. Judges nothing."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from dirtybus.errors import (
    CallCancelled,
    DirtyAppError,
    DirtyConnectionError,
    DirtyTimeoutError,
    PoisonCall,
    Unavailable,
    WorkerLost,
)
from tests.chaos import truth

__all__ = ["KINDS", "CallRecord", "Kind", "Outcome", "merged", "outcome_of", "shown"]


class Outcome(enum.StrEnum):
    """What a caller was told, by what it can do about it."""

    ANSWER = "answer"
    APP_ERROR = "app error"
    LOST = "worker lost"
    POISON = "poison"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    DISCONNECTED = "disconnected"
    OTHER = "other"


_BY_CLASS: tuple[tuple[type[BaseException], Outcome], ...] = (
    (PoisonCall, Outcome.POISON),
    (WorkerLost, Outcome.LOST),
    (DirtyTimeoutError, Outcome.TIMEOUT),
    (CallCancelled, Outcome.CANCELLED),
    (Unavailable, Outcome.REFUSED),
    (DirtyConnectionError, Outcome.DISCONNECTED),
    (DirtyAppError, Outcome.APP_ERROR),
)


def outcome_of(exc: BaseException) -> Outcome:
    return next((outcome for kind, outcome in _BY_CLASS if isinstance(exc, kind)), Outcome.OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One sort of call.

    Attributes:
        is_idempotent: it may run twice, so its answer is promised although workers die.
        is_noted: it writes down when it begins and ends.
        truth: the right answer to a token; None where there never is one.
        is_stream: the answer comes in chunks.
        error: how the text of the error that the action raises begins, for a token; None where it raises none.
    """

    is_idempotent: bool = False
    is_noted: bool = False
    truth: Callable[[str], Any] | None = None
    is_stream: bool = False
    error: Callable[[str], str] | None = None


_PLAIN = Kind(is_idempotent=True, truth=truth.answer)
_ONCE = Kind(is_noted=True, truth=truth.answer)
_STREAM = Kind(is_idempotent=True, truth=truth.chunks, is_stream=True)
_ENDLESS = Kind(is_noted=True)

#: by the name of the action
KINDS: dict[str, Kind] = {
    "answer": _PLAIN,
    "answer_async": _PLAIN,
    "linger": _PLAIN,
    "blob": Kind(is_idempotent=True, truth=lambda token: shown(truth.blob(token))),
    "stream": _STREAM,
    "stream_async": _STREAM,
    "fail": Kind(is_idempotent=True, error=lambda token: f"ValueError: {truth.answer(token)}"),
    "work": _ONCE,
    "work_async": _ONCE,
    "work_stream": Kind(is_noted=True, truth=truth.chunks, is_stream=True),
    "version": Kind(truth=lambda token: int(token.rpartition("v")[2])),
    "segfault": _ENDLESS,
    "leave": _ENDLESS,
    "hog": _ENDLESS,
    "spin": _ENDLESS,
    "hold": _ENDLESS,
    "poison": Kind(is_idempotent=True),
    "leave_once": _PLAIN,
    "want_too_much": Kind(is_idempotent=True, error=lambda _: "MemoryError"),
}


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call as its caller saw it. Moments are of `time.monotonic`, which all processes of a machine share.

    Attributes:
        kind: a name of `KINDS`.
        deadline_s: the limit that the caller gave; None for none, and then an answer is promised.
        extra_s: how much longer than others it may take, as its reader is slow.
        may_leave: the caller gives up on purpose.
        is_cut: its connection or its caller is ended on purpose, so that it may be told anything, or nothing.
        value: the answer, or the chunks that came; bytes as their digest.
        note: the error's text, or where in its life a timeout met the call.
    """

    token: str
    kind: str
    caller: str
    asked_at: float
    deadline_s: float | None = None
    extra_s: float = 0.0
    may_leave: bool = False
    is_cut: bool = False
    settled_at: float | None = None
    outcome: Outcome | None = None
    value: Any = None
    note: str = ""

    def settle(self, outcome: Outcome, at: float, *, value: Any = None, note: str = "") -> None:
        """Note the one outcome."""
        assert self.outcome is None, f"{self.token} ended twice: {self.outcome}, then {outcome}"
        self.outcome, self.settled_at, self.value, self.note = outcome, at, value, note

    def as_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def shown(value: Any) -> Any:
    """Return the value as it stands in a record."""
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value


def merged(lines: Iterable[str]) -> list[CallRecord]:
    """Read records back; of each token the last line counts. A last line that was cut short says nothing."""
    found: dict[str, CallRecord] = {}
    for line in lines:
        if not line.endswith("}"):
            continue
        record = CallRecord(**json.loads(line))
        record.outcome = None if record.outcome is None else Outcome(record.outcome)
        found[record.token] = record
    return list(found.values())
