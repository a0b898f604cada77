"""Questions of a worker to its owner (the stash), from any thread or from the loop, matched by id."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dirtybus.errors import DirtyConnectionError, DirtyError, StashError
from dirtybus.protocol.heads import Refusal
from dirtybus.protocol.messages import Message
from dirtybus.worker.reader import LinkReader

if TYPE_CHECKING:
    import asyncio

    from dirtybus.stash.op import StashReply
    from dirtybus.stash.ops import StashOp

__all__ = ["AsksOfLoop", "AsksOfThread"]

Settle = Callable[["StashReply | DirtyError"], object]


class _Asks:
    """Open questions by id. One thread settles them; any thread asks.

    Args:
        send: sends one message to the owner.
        reader: takes the answers in.
    """

    def __init__(self, send: Callable[[Message], None], reader: LinkReader) -> None:
        self._send = send
        self._reader = reader
        # no lock: a finalizer may ask while its thread is in here, and each step below is one of the interpreter's own
        self._ids = itertools.count(1)
        self._open: dict[int, Settle] = {}
        self._is_closed = False

    def start(self, op: StashOp, settle: Settle, *, beside: bool = False) -> None:
        """Ask; ``settle`` is called once, by whichever thread reads. ``beside``: who asks will not read himself."""
        from dirtybus.stash.wire import ask_message  # not on top: most workers never ask, and start sooner

        if beside:
            self._reader.start_thread()
        ask_id = next(self._ids)
        self._open[ask_id] = settle
        # looked at last: `close` says that it is closed first, so one of the two finds the question
        if self._is_closed and self._open.pop(ask_id, None) is not None:
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
        from dirtybus.stash.wire import reply_of

        head = message.head
        try:
            reply = DirtyError.from_dict(head.error) if isinstance(head, Refusal) else reply_of(message)
        except DirtyError as exc:
            reply = exc
        settle(reply)

    def close(self) -> None:
        """The owner is gone: every open question fails, and every later one."""
        self._is_closed = True
        for ask_id in list(self._open):
            if (settle := self._open.pop(ask_id, None)) is not None:
                settle(DirtyConnectionError("the owner of the stash went away before it answered"))


class _Wait:
    """Where a thread waits for its answer. It sleeps only while another thread reads, so an event is seldom made."""

    __slots__ = ("_woken", "reply")

    def __init__(self) -> None:
        self.reply: StashReply | DirtyError | None = None
        self._woken: threading.Event | None = None

    def settle(self, reply: StashReply | DirtyError) -> None:
        # the reply first, then the look for a sleeper; `wait` does it the other way round, so one sees the other
        self.reply = reply
        if self._woken is not None:
            self._woken.set()

    def is_set(self) -> bool:
        return self.reply is not None

    def wait(self) -> None:
        woken = self._woken = threading.Event()
        if self.reply is None:
            woken.wait()


class AsksOfThread(_Asks):
    """The stash port of the worker's threads."""

    def ask(self, op: StashOp) -> StashReply:
        """Block until the owner has answered.

        Raises:
            StashError: the tables refused the operation.
            DirtyConnectionError: the owner is gone.
        """
        return self._finish(self._begin(op))

    def begin(self, op: StashOp) -> Callable[[], StashReply]:
        """Ask, and return what waits for the answer: so one question is on its way while the next is written."""
        return partial(self._finish, self._begin(op))

    def _begin(self, op: StashOp) -> _Wait:
        wait = _Wait()
        self.start(op, wait.settle)
        return wait

    def _finish(self, wait: _Wait) -> StashReply:
        self._reader.wait_for(wait)
        assert wait.reply is not None
        return _raise_or_return(wait.reply)


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
    if not isinstance(outcome, DirtyError):
        return outcome
    if isinstance(outcome, StashError | DirtyConnectionError):
        raise outcome
    raise StashError(outcome.message, outcome.details) from outcome
