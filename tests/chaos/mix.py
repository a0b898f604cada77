"""Which call comes next: drawn from numbers of a seed, so that the same seed asks the same. Asks nobody itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.chaos import truth
from tests.chaos.apps import DEADLY, FAIR
from tests.chaos.records import KINDS

__all__ = ["Plan", "draw", "plan_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call to make.

    Attributes:
        deadline_s: what the caller gives; None for no limit.
        leave_after_s: after which span the caller gives up; None for never.
        read_pause_s: how long the reader of a stream sleeps after each chunk.
        leave_after_chunks: after how many chunks it stops reading.
    """

    kind: str
    app: str
    arguments: tuple[Any, ...] = ()
    deadline_s: float | None = None
    leave_after_s: float | None = None
    read_pause_s: float = 0.0
    leave_after_chunks: int | None = None

    @property
    def is_stream(self) -> bool:
        return KINDS[self.kind].is_stream

    @property
    def may_leave(self) -> bool:
        return self.leave_after_s is not None or self.leave_after_chunks is not None

    @property
    def extra_s(self) -> float:
        return 60 * self.read_pause_s


#: how often each sort of call is made, as parts of the whole
_FAIR = {
    "answer": 40,
    "answer_async": 12,
    "blob": 3,
    "work": 16,
    "work_async": 10,
    "stream": 4,
    "stream_async": 2,
    "work_stream": 2,
    "linger": 2,
    "fail": 3,
}
#: those of them that may be given a deadline or be left, and how often they are
_HURRIED, _LEFT = 0.08, 0.06
#: what never ends by itself must have a deadline
_ENDLESS_DEADLINE_S = 0.3


def draw(numbers: random.Random, token: str, *, can_leave: bool = True) -> Plan:
    """Return the next fair call. ``can_leave``: its caller is able to give up on a call."""
    kind = numbers.choices(list(_FAIR), list(_FAIR.values()))[0]
    deadline_s = leave_after_s = leave_after_chunks = None
    read_pause_s = 0.0
    fate = numbers.random()
    if fate < _HURRIED:
        deadline_s = numbers.uniform(0.002, 0.25)
    elif KINDS[kind].is_stream and fate < 0.4:
        read_pause_s = numbers.uniform(0.001, 0.02)
    elif KINDS[kind].is_stream and fate < 0.6:
        leave_after_chunks = numbers.randint(1, 3)
    elif can_leave and fate < _HURRIED + _LEFT:
        leave_after_s = numbers.uniform(0.0, 0.05)
    arguments: tuple[Any, ...] = (token,)
    if kind == "blob":
        arguments = (token, bytes(len(truth.blob(token))))
    elif kind == "linger":
        arguments = (token, numbers.uniform(0.02, 0.2))
    return Plan(
        kind=kind,
        app=FAIR,
        arguments=arguments,
        deadline_s=deadline_s,
        leave_after_s=leave_after_s,
        read_pause_s=read_pause_s,
        leave_after_chunks=leave_after_chunks,
    )


def plan_of(kind: str, token: str) -> Plan:
    """Return the call of a sort that is a fault by itself."""
    is_endless = kind in {"spin", "hold"}
    return Plan(kind=kind, app=DEADLY, arguments=(token,), deadline_s=_ENDLESS_DEADLINE_S if is_endless else None)
