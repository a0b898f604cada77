"""Stay: one execution's stay in a scope. It ends exactly once, whatever graia skips or repeats."""

from __future__ import annotations

import asyncio
from typing import Any

from dirtybus.gate.permits import Scope
from dirtybus.gate.request import Request
from dirtybus.gate.turnstile import Turnstile

__all__ = ["Stay"]


class Stay:
    """An execution that is in ``scope`` until `end`, or until the task it runs in is done.

    Args:
        scope: where it counts.
        turnstile: where it came in and must leave.
    """

    __slots__ = ("_scope", "_task", "_turnstile")

    def __init__(self, scope: Scope[Request], turnstile: Turnstile) -> None:
        task = asyncio.current_task()
        assert task is not None, "graia runs executions in tasks"
        self._scope, self._turnstile, self._task = scope, turnstile, task
        # graia skips our afterExecution when an earlier dispatcher's one raises
        task.add_done_callback(self._task_done)

    def end(self) -> None:
        self._task.remove_done_callback(self._task_done)
        self._turnstile.leave(self._scope)

    def _task_done(self, _task: asyncio.Task[Any]) -> None:
        self._turnstile.recover(self._scope)
