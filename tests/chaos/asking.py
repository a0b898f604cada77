"""Making a call and writing down what became of it: over the arbiter itself, or over a client of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from dirtybus.errors import DirtyError, DirtyTimeoutError, PoisonCall
from tests.chaos.mix import Plan, draw
from tests.chaos.records import CallRecord, Outcome, outcome_of, shown

__all__ = ["Asker", "Port", "begun", "is_lull", "keep_asking", "settle_with"]

_TIDE_S, _LULL_S = 3.0, 0.35

Write = Callable[[CallRecord], object]


class Port(Protocol):
    """What takes calls: the same two methods of an arbiter and of a client, which differ by name only."""

    async def execute(
        self, app: str, action: str, args: Sequence[Any] = (), *, timeout_s: float | None = None
    ) -> Any: ...
    def stream(
        self, app: str, action: str, args: Sequence[Any] = (), *, timeout_s: float | None = None
    ) -> AsyncGenerator[Any, None]: ...


class Asker:
    """Ask through ``port`` and write each record down twice: when it is asked, and when it is settled."""

    def __init__(self, port: Port, name: str, write: Write, *, is_cut: bool = False) -> None:
        self._port = port
        self._name = name
        self._write = write
        self._is_cut = is_cut

    async def ask(self, plan: Plan, token: str) -> CallRecord:
        """Make one call and return its record, settled. Cancelling leaves it unsettled."""
        record = begun(plan, token, self._name, is_cut=self._is_cut)
        self._write(record)
        chunks: list[Any] = []
        leaving = asyncio.timeout(plan.leave_after_s)
        try:
            async with leaving:
                if plan.is_stream:
                    outcome = await self._read(plan, chunks)
                    record.settle(outcome, time.monotonic(), value=chunks)
                else:
                    value = await self._port.execute(
                        plan.app, plan.kind, plan.arguments, timeout_s=plan.deadline_s or 0
                    )
                    record.settle(Outcome.ANSWER, time.monotonic(), value=shown(value))
        except Exception as exc:
            if leaving.expired() and not isinstance(exc, DirtyError):
                record.settle(Outcome.CANCELLED, time.monotonic(), value=chunks or None)
            else:
                settle_with(record, exc, chunks)
        self._write(record)
        return record

    async def _read(self, plan: Plan, chunks: list[Any]) -> Outcome:
        stream = self._port.stream(plan.app, plan.kind, plan.arguments, timeout_s=plan.deadline_s or 0)
        async with aclosing(stream) as its:
            async for chunk in its:
                chunks.append(chunk)
                if len(chunks) == plan.leave_after_chunks:
                    return Outcome.CANCELLED
                if plan.read_pause_s:
                    await asyncio.sleep(plan.read_pause_s)
        return Outcome.ANSWER


async def keep_asking(asker: Asker, name: str, numbers: random.Random, goes_on: Callable[[], bool]) -> None:
    """Ask one fair call after the other while ``goes_on``, but for the lulls."""
    number = 0
    while goes_on():
        if is_lull():
            await asyncio.sleep(0.02)
            continue
        number += 1
        token = f"{name}-{number}"
        await asker.ask(draw(numbers, token), token)


def is_lull() -> bool:
    """Whether all callers of the machine rest for a moment, so that there are idle workers."""
    return time.monotonic() % _TIDE_S < _LULL_S


def begun(plan: Plan, token: str, caller: str, *, is_cut: bool = False) -> CallRecord:
    """Return the record of a call that is about to be asked."""
    return CallRecord(
        token=token,
        kind=plan.kind,
        caller=caller,
        asked_at=time.monotonic(),
        deadline_s=plan.deadline_s,
        extra_s=plan.extra_s,
        may_leave=plan.may_leave,
        is_cut=is_cut,
    )


def settle_with(record: CallRecord, exc: Exception, chunks: list[Any]) -> None:
    """Note the error that ended a call, after the chunks that came before it."""
    note = str(exc)
    if isinstance(exc, PoisonCall):
        note = f"{len(exc.history)} deaths: {'; '.join(exc.history)}"
    elif isinstance(exc, DirtyTimeoutError):
        note = exc.phase or note
    outcome = outcome_of(exc)
    if outcome is Outcome.OTHER:
        note = f"{type(exc).__name__}: {note}"
    record.settle(outcome, time.monotonic(), value=chunks or None, note=note[:500])
