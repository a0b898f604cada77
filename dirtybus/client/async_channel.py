"""A connection shared by the tasks of one event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

from dirtybus.client.acquaintance import Acquaintance
from dirtybus.client.patience import Patience
from dirtybus.errors import DirtyError
from dirtybus.in_thread import in_thread
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
    Progress,
    Refusal,
    Reply,
    StashAnswer,
)
from dirtybus.protocol.messages import Message
from dirtybus.transport.link import Link, open_link
from dirtybus.transport.listener import connect
from dirtybus.transport.posix import has_news, rest_of
from dirtybus.transport.sinks import Sink, StreamSink, ValueSink

__all__ = ["AsyncChannel"]

_MAX_PAYLOAD_BYTES = 2**32 - 1  # the arbiter's limit is the one that counts
OnProgress = Callable[[Progress], object]


class AsyncChannel:
    """Calls and questions over one connection, matched by id. Made by `open`; used on one loop."""

    def __init__(self, path: str, window: int, *, greets: bool = False) -> None:
        self.path = path
        self.loop = asyncio.get_running_loop()
        self._window = window
        connection = Connection(Side.CALLER, _MAX_PAYLOAD_BYTES)
        self._link = Link(connection, self._take, self._note_lost)
        self._ids = itertools.count(1)
        self._sinks: dict[int, Sink] = {}
        self._asks: dict[int, asyncio.Future[Message]] = {}
        self.peer = Acquaintance(path, greets=greets)
        self.late = 0
        self._sock: Any = None

    @classmethod
    async def open(cls, path: str, connect_timeout_s: float, window: int, *, greets: bool = False) -> AsyncChannel:
        """Connect to the arbiter at ``path``, and say hello if it ``greets``.

        Raises:
            DirtyConnectionError: nobody listens there.
        """
        channel = cls(path, window, greets=greets)
        channel._sock = sock = await _connected(path, connect_timeout_s)
        sock.setblocking(False)
        await open_link(sock, channel._link)
        if greets:
            channel._link.send(Message(channel.peer.hello()))
        return channel

    async def look(self) -> None:
        """Let the loop take in what the arbiter has said, its end above all, before work is entrusted to it."""
        if not has_news(self._sock):
            return  # the usual case, at the price of one system call
        for _ in range(2):  # once for the selector to see it, once for the link to hear it
            await asyncio.sleep(0)

    @property
    def is_usable(self) -> bool:
        """Whether a new call may go this way: this loop, and the arbiter is there."""
        return self._link.is_open and self.loop is asyncio.get_running_loop()

    async def execute(
        self,
        app: str,
        action: str,
        body: Sequence[Buffer],
        patience: Patience,
        on_progress: OnProgress | None = None,
        priority: int | None = None,
    ) -> Any:
        """Run an action and return its value; the list of chunks when it yields. Cancelling cancels the call."""
        call_id = next(self._ids)
        sink = ValueSink(lambda chunks: self._credit(call_id, chunks), on_progress)
        self._start(call_id, sink, app, action, body, patience, priority)
        try:
            async with asyncio.timeout(patience.wait_s):
                return await sink.outcome
        except TimeoutError as exc:
            if isinstance(exc, DirtyError):
                raise
            raise patience.exhausted(app, action) from None
        finally:
            self._leave(call_id)

    async def stream(
        self,
        app: str,
        action: str,
        body: Sequence[Buffer],
        patience: Patience,
        idle_timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
        priority: int | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield what an action yields. Closing or dropping the iterator ends the work."""
        call_id = next(self._ids)
        sink = StreamSink(lambda chunks: self._credit(call_id, chunks), self._window, on_progress)
        self._start(call_id, sink, app, action, body, patience, priority)
        try:
            while chunk := await sink.read(idle_timeout_s):
                yield chunk[0]
        finally:
            self._leave(call_id)

    async def ask(self, message_of: Callable[[int], Message]) -> Message:
        """Ask the arbiter itself and return its answer.

        Raises:
            DirtyError: it refused.
            DirtyConnectionError: it went away before it answered.
        """
        ask_id = next(self._ids)
        answer: asyncio.Future[Message] = self.loop.create_future()
        self._asks[ask_id] = answer
        try:
            self._send(message_of(ask_id))
            message = await answer
        finally:
            del self._asks[ask_id]
        if isinstance(message.head, Refusal):
            raise DirtyError.from_dict(message.head.error)
        return message

    async def close(self) -> None:
        """Hang up; open calls fail with `DirtyConnectionError`. May be called twice."""
        self.peer.is_left = True
        self._link.close()
        self._note_lost(None)

    # --- words ---

    def _start(
        self,
        call_id: int,
        sink: Sink,
        app: str,
        action: str,
        body: Sequence[Buffer],
        patience: Patience,
        priority: int | None,
    ) -> None:
        left_s = patience.timeout_s
        head = Call(app=app, action=action, time_left_s=left_s, window=self._window, priority=priority)
        self._sinks[call_id] = sink
        try:
            self._send(Message(head, call_id, body))
        except BaseException:
            del self._sinks[call_id]
            raise

    def _leave(self, call_id: int) -> None:
        """The caller has left: when the call has no last word yet, it is cancelled."""
        if self._sinks.pop(call_id, None) is not None and self._link.is_open:
            self._send(Message(Cancel(), call_id))

    def _credit(self, call_id: int, chunks: int) -> None:
        if call_id in self._sinks:
            self._link.send(Message(Credit(chunks=chunks), call_id))  # when it is gone, the sink is told so

    def _send(self, message: Message) -> None:
        # a write that fails at once ends the link, and has taken nothing
        if not self._link.send(message) or not self._link.is_open:
            raise self.peer.loss("the arbiter closed the connection", was_sent=False)

    def _take(self, message: Message) -> None:
        head = message.head
        if isinstance(head, Hello | Drain | Goodbye):
            self.peer.note(head)
            return
        if isinstance(head, Answer | StashAnswer | Refusal):
            asked = self._asks.get(message.id)
            if asked is not None and not asked.done():
                asked.set_result(message)
            return
        sink = self._sinks.get(message.id)
        if sink is None:
            self.late += isinstance(head, Reply | Failure | End)
        else:
            self._pass_on(message, head, sink)

    def _pass_on(self, message: Message, head: Head, sink: Sink) -> None:
        if isinstance(head, Reply | End | Failure):
            del self._sinks[message.id]
        match head:
            case Chunk():
                sink.chunk(message.payload)
            case Progress():
                sink.progress(head)
            case Reply():
                sink.reply(message.payload)
            case End():
                sink.end()
            case Failure():
                sink.fail(DirtyError.from_dict(head.error))

    def _note_lost(self, exc: Exception | None) -> None:
        why = "the client was closed" if self.peer.is_left else str(exc) if exc else "it closed the connection"
        if not self.peer.is_left:
            self._take_rest()
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.fail(self.peer.loss(why))
        for asked in self._asks.values():
            if not asked.done():
                asked.set_exception(self.peer.loss(why))

    def _take_rest(self) -> None:
        """Take in what the arbiter said before it went; a write of ours may have found that out before our reader."""
        for received in rest_of(self._sock):
            self._link.data_received(received)


async def _connected(path: str, timeout_s: float) -> Any:
    """Connect in a thread, as the arbiter's queue may be full. Cancelling leaves no socket behind."""
    connecting = in_thread(partial(connect, path, timeout_s=timeout_s))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        connecting.add_done_callback(_close_unused)
        raise


def _close_unused(connecting: asyncio.Future[Any]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
