"""Turnstile: tasks wait here for their tree's permit. It must never decide who is next: `Permits` and policy do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from graia.broadcast.exceptions import ExecutionStop
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.gate.drops import Drops
from dirtybus.gate.permits import Permits, Phase, Scope
from dirtybus.gate.policy import DropReason, HoldPolicy
from dirtybus.gate.request import Request

__all__ = ["Turnstile"]

_COUNTERS: Final = (
    "arrived",  # executions that asked for a permit of their own
    "held",  # of these, how many had to wait
    "started",  # of these, how many ran
    "joined",  # executions that ran under the permit of their tree
    "recovered",  # executions whose afterExecution graia skipped, so that the end of their task had to do
    "events_dropped",  # events of which at least one execution was dropped
    *(f"dropped_{reason.value}" for reason in DropReason),
)


class Turnstile:
    """The awaiting half of a ProcessLocker.

    Args:
        permits: who may run; every change of it is followed by `settle`.
        policy: what happens to those who cannot run at once.
        drops: whom to tell of those who never will.
        on_hold: called whenever an execution begins to wait.
    """

    def __init__(
        self, permits: Permits[Request], policy: HoldPolicy, drops: Drops, on_hold: Callable[[], None]
    ) -> None:
        self._permits, self._policy, self._drops, self._on_hold = permits, policy, drops, on_hold
        self._idle: asyncio.Future[None] | None = None
        self.draining = False
        self.counters = dict.fromkeys(_COUNTERS, 0)

    async def admit(self, interface: DispatcherInterface[Any]) -> Request:
        """Return a running permit for a new tree, which its first execution must `enter` before anything else.

        Cancelling leaves nothing behind but a count.

        Raises:
            ExecutionStop: the event was dropped.
        """
        self.counters["arrived"] += 1
        request = Request(interface, time.monotonic())
        refusal = self._policy.refusal(self._permits, draining=self.draining)
        if refusal is not None:
            self._tell(request, refusal)
            raise ExecutionStop
        oldest = self._permits.oldest
        if oldest is not None and self._policy.is_full(self._permits):
            self._drop(oldest, DropReason.OVERFLOW)
        self._permits.ask(request)
        if request.phase is Phase.WAITING:
            await self._hold(request)
        self.counters["started"] += 1
        return request

    async def enter(self, scope: Scope[Request]) -> None:
        """Count an execution in ``scope`` and wait while its tree wants its slot back.

        Cancelling leaves it counted: `leave` is due as after any other.
        """
        self._permits.enter(scope)
        self.settle()
        await self.has_slot(scope)

    def leave(self, scope: Scope[Request]) -> None:
        self._permits.leave(scope)
        self.settle()

    def recover(self, scope: Scope[Request]) -> None:
        """Leave for an execution that never said it had ended."""
        self.counters["recovered"] += 1
        self.leave(scope)

    async def has_slot(self, scope: Scope[Request]) -> None:
        """Wait while the tree wants its slot back; not where it has lent it, for that may be for ever."""
        while scope.permit.phase is Phase.RETURNING:
            await scope.permit.turn()

    def settle(self) -> None:
        """Wake all who need not wait any more."""
        for request in self._permits.settle():
            request.wake()
        if self._idle is not None and self._permits.is_idle:
            self._idle.set_result(None)
            self._idle = None

    def drop_held(self) -> None:
        """Drop all that is held, the oldest first."""
        while (oldest := self._permits.oldest) is not None:
            self._drop(oldest, DropReason.DRAINING)

    async def is_idle_within(self, timeout_s: float | None) -> bool:
        """Wait until nothing runs and nothing is held, for at most ``timeout_s`` seconds; say whether it is so."""
        if self._permits.is_idle:
            return True
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._idle}, timeout=timeout_s)
        return self._permits.is_idle

    async def _hold(self, request: Request) -> None:
        self.counters["held"] += 1
        self._on_hold()
        timeout_s = self._policy.hold_timeout_s
        loop = asyncio.get_running_loop()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._expire, request)
        try:
            await request.turn()
        except asyncio.CancelledError:
            # it may have been granted, or dropped, in the very tick in which it was cancelled
            if request.phase is not Phase.GONE:
                self._drop(request, DropReason.CANCELLED)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if request.phase is Phase.GONE:
            raise ExecutionStop
        self._permits.start(request)

    def _expire(self, request: Request) -> None:
        if request.phase is Phase.WAITING:
            self._drop(request, DropReason.TIMED_OUT)

    def _drop(self, request: Request, reason: DropReason) -> None:
        self._permits.withdraw(request)
        request.wake()
        self._tell(request, reason)
        self.settle()

    def _tell(self, request: Request, reason: DropReason) -> None:
        self.counters[f"dropped_{reason.value}"] += 1
        # a scheduler's task runs without an event
        if request.event is not None:
            self.counters["events_dropped"] += self._drops.tell(request.event, request.broadcast, reason)
