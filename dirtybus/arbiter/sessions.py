"""One attached client that speaks the native protocol. Bodies pass through unopened; ids are the client's own."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from dirtybus import log
from dirtybus.arbiter.calls import Request, next_caller
from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyAppNotFoundError, DirtyError, LocalProtocolError, QueueFull, RemoteProtocolError
from dirtybus.pool.model import CallId
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import (
    Answer,
    Call,
    Cancel,
    Chunk,
    Credit,
    Drain,
    End,
    Failure,
    Goodbye,
    Head,
    Hello,
    Manage,
    Progress,
    Refusal,
    Reply,
    StashAsk,
    StatusAsk,
)
from dirtybus.protocol.messages import Message
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply
from dirtybus.stash.wire import answer_message, op_of
from dirtybus.transport.link import Link
from dirtybus.transport.sinks import Sink
from dirtybus.version import __version__

__all__ = ["NativeSession", "SessionArbiter"]

#: no import path is longer; a longer one is not even compared with those that are served
_MAX_APP_CHARS = 1024
#: orders of one client that are not answered yet
_MAX_PENDING = 8
#: chunks under way to one reader that does not read
_MAX_WINDOW = 4096


class SessionArbiter(Protocol):
    """What a session needs of the arbiter."""

    config: DirtyConfig
    stash: Keeper

    def submit(self, request: Request, sink: Sink) -> CallId: ...
    def cancel(self, call_id: CallId) -> None: ...
    def credit(self, call_id: CallId, chunks: int) -> None: ...
    def idempotent_actions(self) -> Sequence[tuple[str, str]]: ...
    def status(self) -> Mapping[str, Any]: ...
    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any: ...


class NativeSession(Link):
    """Calls, questions and orders of one client, from its first byte to its end.

    Args:
        arbiter: does what is asked.
        on_closed: told once when the client is gone; its open calls are cancelled by then.
    """

    def __init__(self, arbiter: SessionArbiter, on_closed: Callable[[NativeSession], None]) -> None:
        config = arbiter.config
        super().__init__(
            Connection(Side.CALLEE, config.max_payload_bytes), self._take, self._note_lost, self._note_room
        )
        self._arbiter = arbiter
        self._on_closed = on_closed
        self._max_open = config.max_queued
        self._open: dict[int, _Words] = {}
        self._caller = next_caller()
        self._was_greeted = False
        self._was_left = False
        #: orders whose answer comes later; cancelled when the client is gone
        self._pending: set[asyncio.Future[None]] = set()

    def announce_drain(self) -> None:
        """Tell the client that no new calls are taken."""
        self.send(Message(Drain()))

    def greet(self) -> None:
        """Say hello once more, as it is now; to a client that said hello itself. Others do not ask what it says."""
        if self._was_greeted:
            self.send(Message(_hello(self._arbiter)))

    def close(self) -> None:
        """Take leave and close: what was taken has its last word, so the client knows that the rest was not taken."""
        self._was_left = True
        if not self._open:
            self.send(Message(Goodbye()))
        super().close()

    def forget(self, client_id: int) -> None:
        """The last word on a call was sent."""
        self._open.pop(client_id, None)

    def _take(self, message: Message) -> None:
        match message.head:
            case Call() as head:
                self._submit(message.id, head, message.body)
            case Cancel():
                if words := self._open.get(message.id):
                    self._arbiter.cancel(words.call_id)
            case Credit() as head:
                if words := self._open.get(message.id):
                    words.credit(head.chunks)
            case StashAsk():
                self._ask_stash(message)
            case StatusAsk():
                self._answer(message.id, lambda: Message(Answer(value=self._arbiter.status()), message.id))
            case Manage(verb=verb, arguments=arguments):
                self._manage(message.id, verb, arguments)
            case Hello():
                self._was_greeted = True
                self.greet()
            case head:
                raise RemoteProtocolError(f"a client may not send {head.kind.name}")

    def _submit(self, client_id: int, head: Call, body: Any) -> None:
        words = self._open[client_id] = _Words(self, client_id)
        window = min(max(1, head.window), _MAX_WINDOW)
        request = Request(
            app=head.app,
            action=head.action,
            body=body,
            timeout_s=head.time_left_s,
            window=window,
            priority=head.priority,
            caller=self._caller,
        )
        try:
            if len(head.app) > _MAX_APP_CHARS:
                raise DirtyAppNotFoundError(head.app[:60], f"no app has an import path of {len(head.app)} characters")
            if len(self._open) > self._max_open:
                raise self._too_many()
            words.call_id = self._arbiter.submit(request, words)
        except DirtyError as exc:
            words.fail(exc)

    def _too_many(self) -> QueueFull:
        waits = {"wait": True} if self._arbiter.config.queue_full == "wait" else {}
        return QueueFull(f"this client has {self._max_open} calls open; wait for answers", waits, retry_after_s=1.0)

    def _answer(self, ask_id: int, answer: Callable[[], Message]) -> None:
        try:
            self.send(answer())
        except DirtyError as exc:
            self._refuse(ask_id, exc)

    def _ask_stash(self, message: Message) -> None:
        try:
            op = op_of(message)
        except DirtyError as exc:
            self._refuse(message.id, exc)
        else:
            self._arbiter.stash.submit(op, self, partial(self._answer_stash, message.id))

    def _answer_stash(self, ask_id: int, outcome: StashReply | DirtyError) -> None:
        try:
            self.send(answer_message(outcome, ask_id))
        except DirtyError as exc:
            self._refuse(ask_id, exc)

    def _manage(self, ask_id: int, verb: str, arguments: Mapping[str, Any]) -> None:
        try:
            value = self._arbiter.manage(verb, arguments)
            if inspect.isawaitable(value):
                self._answer_later(ask_id, value)
            else:
                self.send(Message(Answer(value=value), ask_id))
        except DirtyError as exc:
            self._refuse(ask_id, exc)

    def _answer_later(self, ask_id: int, value: Awaitable[Any]) -> None:
        if len(self._pending) >= _MAX_PENDING:
            if inspect.iscoroutine(value):
                value.close()  # it was not begun
            raise QueueFull(f"this client waits for {_MAX_PENDING} orders; wait for answers", retry_after_s=1.0)
        task = asyncio.ensure_future(self._answer_when_done(ask_id, value))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _answer_when_done(self, ask_id: int, value: Awaitable[Any]) -> None:
        try:
            self.send(Message(Answer(value=await value), ask_id))
        except DirtyError as exc:
            self._refuse(ask_id, exc)
        except Exception as exc:
            log.error(exc, "an order of a client failed in a way that it must not")
            self._refuse(ask_id, DirtyError(f"the arbiter failed: {type(exc).__name__}: {exc}"))

    def _refuse(self, ask_id: int, error: DirtyError) -> None:
        try:
            self.send(Message(Refusal(error=error.to_dict()), ask_id))
        except LocalProtocolError as exc:  # it quotes the question, which is nearly as large as the limit
            self.send(Message(Refusal(error=exc.to_dict()), ask_id))

    def _note_room(self, has_room: bool) -> None:
        # a client that does not read its answers may not ask for more: so nothing piles up here
        if has_room:
            self.resume_reading()
        else:
            self.pause_reading()

    def credit(self, call_id: CallId, chunks: int) -> None:
        """The client took chunks of a call: so many more may be sent."""
        self._arbiter.credit(call_id, chunks)

    def _note_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, RemoteProtocolError):
            log.logger.warning("a client was hung up on: {}", exc)
        for words in list(self._open.values()):
            self._arbiter.cancel(words.call_id)
        self._open.clear()
        for task in self._pending:
            task.cancel()
        self._arbiter.stash.leave(self, keeps_leases=self._was_left)
        self._on_closed(self)


class _Words:
    """The sink of one client's call: says each word again under the client's id."""

    __slots__ = ("_client_id", "_session", "_unread", "call_id")

    def __init__(self, session: NativeSession, client_id: int) -> None:
        self._session = session
        self._client_id = client_id
        self._unread = 0
        self.call_id = CallId(0)

    def credit(self, chunks: int) -> None:
        """Pass on a credit, for no more chunks than were sent: nobody can have read others."""
        paid = min(chunks, self._unread)
        if paid > 0:
            self._unread -= paid
            self._session.credit(self.call_id, paid)

    def chunk(self, body: Buffer) -> None:
        self._unread += 1
        self._session.send(Message(Chunk(), self._client_id, (body,)))

    def progress(self, report: Progress) -> None:
        self._session.send(Message(report, self._client_id))

    def reply(self, body: Buffer) -> None:
        self._last(Reply(), (body,))

    def end(self) -> None:
        self._last(End(), ())

    def fail(self, error: DirtyError) -> None:
        self._last(Failure(error=error.to_dict()), ())

    def _last(self, head: Head, body: tuple[Buffer, ...]) -> None:
        self._session.forget(self._client_id)
        try:
            self._session.send(Message(head, self._client_id, body))
        except LocalProtocolError as exc:
            self._session.send(Message(Failure(error=exc.to_dict()), self._client_id))


def _hello(arbiter: SessionArbiter) -> Hello:
    return Hello(
        role="arbiter",
        pid=os.getpid(),
        version=__version__,
        max_payload_bytes=arbiter.config.max_payload_bytes,
        idempotent=arbiter.idempotent_actions(),
    )
