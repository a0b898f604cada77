"""One call of a thread: sent, and sent again where that may be, until it has its last word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

from dirtybus.client.patience import Waiting
from dirtybus.client.stamina import Stamina
from dirtybus.client.sync_channel import SyncChannel, Waiter
from dirtybus.client.tries import Tries
from dirtybus.errors import DirtyConnectionError, DirtyError, Unavailable
from dirtybus.protocol.codec import decode_body
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import (
    Call,
    Cancel,
    Chunk,
    Credit,
    End,
    Failure,
    Progress,
    Reply,
)
from dirtybus.protocol.messages import Message
from dirtybus.transport.gathered import Gathered

__all__ = ["SyncCall"]


class _Client(Protocol):
    """What a call needs of its client."""

    stamina: Stamina
    closed: threading.Event

    def channel_for_call(self) -> SyncChannel: ...


class SyncCall:
    """Run once, by `result` or by `chunks`. Leaving before the last word cancels the call.

    Args:
        client: gives connections.
        tries: those of this call.
        body: the arguments. They were encoded once, so that every try sends the same.
        window: how many chunks may be under way before the reader has taken any.
        idle_timeout_s: bounds each wait; None for no bound.
        on_progress: told of reports; None when nobody asked.
    """

    def __init__(
        self,
        client: _Client,
        tries: Tries,
        body: Sequence[Buffer],
        window: int,
        *,
        idle_timeout_s: float | None = None,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> None:
        self._client = client
        self._closed = client.closed
        self._tries = tries
        self._body = tuple(body)
        self._window = window
        self._idle_timeout_s = idle_timeout_s
        self._on_progress = on_progress
        self._channel: SyncChannel | None = None
        self._waiter: Waiter | None = None
        self._clock: Waiting
        self._owed = 0
        self._gathered = Gathered()

    def result(self) -> Any:
        """Return its value; the list of chunks when it yields."""
        with closing(self._words()) as words:
            for message in words:
                if isinstance(message.head, Reply):
                    return decode_body(message.payload)
                self._gathered.add(message.payload)
        return self._gathered.values()

    def chunks(self) -> Iterator[Any]:
        """Yield what it yields, as it comes."""
        with closing(self._words()) as words:
            for message in words:
                self._tries.has_given = True
                yield decode_body(message.payload)

    def _words(self) -> Generator[Message, None, None]:
        """Yield chunks, or the one reply."""
        try:
            while True:
                message = self._hear()
                match message.head:
                    case End():
                        return
                    case Progress() as report:
                        if self._on_progress is not None:
                            self._on_progress(report)
                    case Chunk():
                        yield message
                        self._pay()
                    case _:
                        yield message
                        return
        finally:
            self._leave()

    def _hear(self) -> Message:
        """Return the next word that is no failure, of this try or of a later one."""
        while True:
            try:
                return self._hear_once()
            except (Unavailable, DirtyConnectionError) as exc:
                if self._closed.is_set():
                    raise
                peer = None if self._channel is None else self._channel.peer
                pause_s = self._client.stamina.pause_s(self._tries, exc, peer)
            except TimeoutError as exc:
                if isinstance(exc, DirtyError):
                    raise
                raise self._clock.exhausted(self._tries.app, self._tries.action) from None
            self._forget()
            self._closed.wait(pause_s)

    def _hear_once(self) -> Message:
        if self._channel is None or self._waiter is None:
            self._channel, self._waiter = self._send()
        message = self._channel.next(self._waiter, self._clock.next_limit_at())
        if isinstance(message.head, Reply | End | Failure):
            self._forget()
        if isinstance(message.head, Failure):
            raise DirtyError.from_dict(message.head.error)
        return message

    def _send(self) -> tuple[SyncChannel, Waiter]:
        self._channel = None
        if self._closed.is_set():
            raise DirtyConnectionError("the client was closed before the call was taken", started=False)
        channel = self._client.channel_for_call()
        patience = self._client.stamina.begin(self._tries)
        self._clock = patience.begin(self._idle_timeout_s)
        self._owed, self._gathered = 0, Gathered()
        tries = self._tries
        head = Call(
            app=tries.app,
            action=tries.action,
            time_left_s=patience.timeout_s,
            window=self._window,
            priority=tries.priority,
        )
        return channel, channel.start(head, self._body)

    def _pay(self) -> None:
        """The reader took a chunk: the worker may send as many more as were taken."""
        self._owed += 1
        if self._owed >= max(1, self._window // 2) and self._channel is not None and self._waiter is not None:
            self._channel.mention(Credit(chunks=self._owed), self._waiter)
            self._owed = 0

    def _forget(self) -> None:
        if self._channel is not None and self._waiter is not None:
            self._channel.forget(self._waiter)
        self._waiter = None

    def _leave(self) -> None:
        """The caller has left: when the call has no last word yet, it is cancelled."""
        channel, waiter = self._channel, self._waiter
        self._forget()
        if channel is not None and waiter is not None:
            channel.mention(Cancel(), waiter)
