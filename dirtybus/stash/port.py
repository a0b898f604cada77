"""The way from a handle to the tables. Other ports live with their links; here is the one of the owner itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dirtybus.errors import DirtyError, StashError
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp, Transact
from dirtybus.stash.ops_leases import Acquire, Release
from dirtybus.stash.ops_many import DeleteMany, GetMany, Page, PutMany

if TYPE_CHECKING:
    import asyncio

    from dirtybus.stash.keeper import Keeper

__all__ = ["AsyncLocalPort", "AsyncPort", "LocalPort", "SyncPort", "begin_at"]

#: The caller that the owner's own code is: it holds its leases until the owner ends.
_OWNER = "the owner"
_LONG = (Page, PutMany, GetMany, DeleteMany, Transact)


class SyncPort(Protocol):
    """Gets an operation done while the thread waits.

    Raises:
        StashError: the tables refused it.
        DirtyError: it could not be brought to the tables, or its reply not back.
    """

    def ask(self, op: StashOp) -> StashReply: ...


def begin_at(port: SyncPort, op: StashOp) -> Callable[[], StashReply]:
    """Ask ``port``; return what waits for the answer. Only those ports that can do so go on before it is there."""
    begin = getattr(port, "begin", None)
    if begin is None:
        reply = port.ask(op)
        return lambda: reply
    finish: Callable[[], StashReply] = begin(op)
    return finish


class AsyncPort(Protocol):
    """Gets an operation done while the task waits; a cancelled one was carried out wholly or not at all."""

    async def ask(self, op: StashOp) -> StashReply: ...


class LocalPort:
    """Reaches the stash of this process: at once, unless the operation itself has to wait."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper

    def ask(self, op: StashOp) -> StashReply:
        outcome: list[StashReply | DirtyError] = []
        if self.keeper.is_answered_at_once(op):
            self.keeper.submit(op, _OWNER, outcome.append)
            if outcome:
                return _raise_or_return(outcome[0])
            raise StashError(
                f"{op!r} was done, but the disk cannot keep up; await it, with the same function of stash.aio"
            )
        if _runs_a_loop():
            raise StashError(f"{op!r} may have to wait, and would block the event loop; await it, with stash.aio")
        answered = threading.Event()

        def settle(reply: StashReply | DirtyError) -> None:
            outcome.append(reply)
            answered.set()

        self.keeper.submit(op, _OWNER, settle)
        answered.wait()
        return _raise_or_return(outcome[0])


class AsyncLocalPort:
    """The same for tasks."""

    def __init__(self, port: LocalPort) -> None:
        self._keeper = port.keeper

    async def ask(self, op: StashOp) -> StashReply:
        outcome: list[StashReply | DirtyError] = []
        wake: list[Any] = []

        def settle(reply: StashReply | DirtyError) -> None:
            outcome.append(reply)
            if wake:
                wake[0]()

        self._keeper.submit(op, _OWNER, settle)
        if not outcome:
            import asyncio  # it is loaded: a task runs

            answered = asyncio.Event()
            loop = asyncio.get_running_loop()
            wake.append(lambda: self._wake(loop, answered, op))
            if not outcome:  # it may have come from another thread meanwhile
                try:
                    await answered.wait()
                except asyncio.CancelledError:
                    self._keeper.withdraw(op, settle)
                    raise
        elif isinstance(op, _LONG):
            import asyncio

            await asyncio.sleep(0)  # of several such in a row, others come in between
        return _raise_or_return(outcome[0])

    def _wake(self, loop: asyncio.AbstractEventLoop, answered: asyncio.Event, op: StashOp) -> None:
        """Say that there is an answer. In the keeper, and in any thread."""
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop has ended, and with it whoever asked
            if isinstance(op, Acquire):
                self._keeper.submit(Release(op.name, op.token), _OWNER, _to_nobody)


def _to_nobody(_: StashReply | DirtyError) -> None:
    """Whoever asked has ended."""


def _runs_a_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - it does not raise


def _raise_or_return(outcome: StashReply | DirtyError) -> StashReply:
    if isinstance(outcome, DirtyError):
        raise outcome
    return outcome
