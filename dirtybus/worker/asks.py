"""Questions of a worker to its owner (the stash), from any thread or from the loop, matched by id."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dirtybus.errors import DirtyConnectionError, DirtyError, StashError
from dirtybus.protocol.messages import Message, Refusal
from dirtybus.stash.ops import StashOp, StashReply
from dirtybus.stash.wire import ask_message, reply_of
from dirtybus.worker.reader import LinkReader

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsksOfLoop", "AsksOfThread"]

Settle = Callable[[StashReply | DirtyError], object]


class _Asks:
    """Open questions by id. One thread settles them; any thread asks.

    Args:
        send: sends one message to the owner.
        reader: takes the answers in.
    """

    def __init__(self, send: Callable[[Message], None], reader: LinkReader) -> None:
        self._send = send
        self._reader = reader
        self._lock = threading.RLock()  # a finalizer may ask while its thread is in here
        self._ids = itertools.count(1)
        self._open: dict[int, Settle] = {}
        self._is_closed = False

    def start(self, op: StashOp, settle: Settle, *, beside: bool = False) -> None:
        """Ask; ``settle`` is called once, by whichever thread reads. ``beside``: who asks will not read himself."""
        if beside:
            self._reader.start_thread()
        with self._lock:
            ask_id = next(self._ids)
            if not self._is_closed:
                self._open[ask_id] = settle
        if self._is_closed:
            raise DirtyConnectionError("the owner of the stash is gone")
        try:
            self._send(ask_message(op, ask_id))
        except DirtyError:
            self._open.pop(ask_id, None)
            raise

    def settle(self, message: Message) -> None:
        """Take an answer or a refusal; one that nobody waits for is dropped."""
        settle = self._open.pop(message.id, None)
        if settle is None:
            return
        if isinstance(message.head, Refusal):
            settle(DirtyError.from_dict(message.head.error))
        else:
            try:
                settle(reply_of(message))
            except DirtyError as exc:
                settle(exc)

    def close(self) -> None:
        """The owner is gone: every open question fails, and every later one."""
        with self._lock:
            self._is_closed = True
            waiting, self._open = self._open, {}
        for settle in waiting.values():
            settle(DirtyConnectionError("the owner of the stash went away before it answered"))


class AsksOfThread(_Asks):
    """The stash port of the worker's threads."""

    def ask(self, op: StashOp) -> StashReply:
        """Block until the owner has answered.

        Raises:
            StashError: the tables refused the operation.
            DirtyConnectionError: the owner is gone.
        """
        answered = threading.Event()
        outcome: list[StashReply | DirtyError] = []

        def settle(reply: StashReply | DirtyError) -> None:
            outcome.append(reply)
            answered.set()

        self.start(op, settle)
        self._reader.wait_for(answered)
        return _raise_or_return(outcome[0])


class AsksOfLoop:
    """The same for tasks, on whichever loop they run."""

    def __init__(self, asks: _Asks) -> None:
        self._asks = asks

    async def ask(self, op: StashOp) -> StashReply:
        """Wait for the owner's answer; a cancelled question was carried out wholly or not at all."""
        import asyncio  # only workers with async actions load it

        loop = asyncio.get_running_loop()
        answered: asyncio.Future[StashReply | DirtyError] = loop.create_future()

        def settle(reply: StashReply | DirtyError) -> None:
            with suppress(RuntimeError):  # a loop that was closed meanwhile; nobody waits there
                loop.call_soon_threadsafe(_settle_future, answered, reply)

        self._asks.start(op, settle, beside=True)
        return _raise_or_return(await answered)


def _settle_future(answered: asyncio.Future[StashReply | DirtyError], reply: StashReply | DirtyError) -> None:
    if not answered.done():
        answered.set_result(reply)


def _raise_or_return(outcome: StashReply | DirtyError) -> StashReply:
    if isinstance(outcome, StashError | DirtyConnectionError):
        raise outcome
    if isinstance(outcome, DirtyError):
        raise StashError(outcome.message, outcome.details) from outcome
    return outcome
