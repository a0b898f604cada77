"""One call of a GD v1 client: its words, put into gunicorn's format and sent in order. Knows no socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dirtybus.errors import DirtyError, ProtocolError
from dirtybus.in_thread import in_thread
from dirtybus.pool.model import CallId
from dirtybus.protocol.codec import decode_body
from dirtybus.protocol.frames import LARGE_BYTES, Buffer
from dirtybus.protocol.gd1 import encode_message
from dirtybus.protocol.gd1_messages import Answer, Chunk, End, Error, Response
from dirtybus.protocol.heads import Progress

__all__ = ["CallArbiter", "Gd1Call", "Outbox"]


class CallArbiter(Protocol):
    """Whoever runs the call."""

    def cancel(self, call_id: CallId) -> None: ...
    def credit(self, call_id: CallId, chunks: int) -> None: ...


class Outbox(Protocol):
    """Where frames leave."""

    @property
    def is_full(self) -> bool: ...
    def write(self, frame: bytes) -> None: ...
    def forget(self, call: Gd1Call) -> None: ...


@dataclass(frozen=True, slots=True)
class _Word:
    """One word on the call: a body that must be translated, or a message that need not be."""

    kind: Callable[[Any], Answer] | None = None
    body: Buffer = b""
    message: Answer | None = None

    @property
    def is_last(self) -> bool:
        return self.kind is not Chunk

    def frame(self, client_id: int) -> bytes:
        if self.kind is None:
            assert self.message is not None
            return encode_message(self.message, client_id)
        return encode_message(self.kind(decode_body(self.body)), client_id)


class Gd1Call:
    """The sink of one call. Small words are translated at once, large ones in a thread; none overtakes another.

    A chunk earns its credit when it has left for a client that reads; while the outbox is full, credit is owed.

    Args:
        client_id: the client's own id of the request, which stands on every answer.
        name: app and action, for messages.
        window: how many chunks may be under way.
        arbiter: runs the call.
        outbox: takes the frames.
    """

    def __init__(self, client_id: int, name: str, window: int, arbiter: CallArbiter, outbox: Outbox) -> None:
        self.call_id = CallId(0)  # set once the arbiter has accepted it; it may speak before
        self._client_id = client_id
        self._name = name
        self._batch = max(1, window // 2)
        self._arbiter = arbiter
        self._outbox = outbox
        self._words: deque[_Word] = deque()
        self._is_translating = False
        self._is_over = False
        self._owed = 0

    def chunk(self, body: Buffer) -> None:
        self._say(_Word(Chunk, body))

    def progress(self, report: Progress) -> None:
        """GD v1 has no word for it."""

    def reply(self, body: Buffer) -> None:
        self._say(_Word(Response, body))

    def end(self) -> None:
        self._say(_Word(message=End()))

    def fail(self, error: DirtyError) -> None:
        self._say(_Word(message=Error(error.to_dict())))

    def pay(self) -> None:
        """Give the credit that is owed, if the outbox has room."""
        if self._owed >= self._batch and not self._outbox.is_full:
            owed, self._owed = self._owed, 0
            self._arbiter.credit(self.call_id, owed)

    def drop(self) -> None:
        """The client is gone: what is still said goes nowhere, and the work is cancelled."""
        self._is_over = True
        self._words.clear()
        self._arbiter.cancel(self.call_id)

    def _say(self, word: _Word) -> None:
        if not self._is_over:
            self._words.append(word)
            self._advance()

    def _advance(self) -> None:
        while self._words and not self._is_translating:
            word = self._words[0]
            if len(word.body) > LARGE_BYTES:
                self._is_translating = True
                in_thread(word.frame, self._client_id).add_done_callback(self._note_translated)
                return
            try:
                frame = word.frame(self._client_id)
            except Exception as exc:  # whatever a value does, its caller hears of it
                self._give_up(exc)
                return
            self._send(frame)

    def _note_translated(self, translated: asyncio.Future[bytes]) -> None:
        self._is_translating = False
        if self._is_over or translated.cancelled():
            return
        if error := translated.exception():
            self._give_up(error)
        else:
            self._send(translated.result())
        self._advance()

    def _send(self, frame: bytes) -> None:
        word = self._words.popleft()
        if word.is_last:
            self._finish()
        self._outbox.write(frame)
        if not word.is_last:
            self._owed += 1
            self.pay()

    def _give_up(self, reason: BaseException) -> None:
        """Tell the client why it will not get what the action gave, and end what may still run."""
        is_done = self._words[0].is_last
        so_far = "ran to its end, but its result" if is_done else "was cancelled, because a value it yielded"
        error = ProtocolError(
            f"{self._name} {so_far} cannot be sent over GD v1: {str(reason) or type(reason).__name__}"
        )
        self._finish()
        self._outbox.write(encode_message(Error(error.to_dict()), self._client_id))
        if not is_done:
            self._arbiter.cancel(self.call_id)

    def _finish(self) -> None:
        self._is_over = True
        self._words.clear()
        self._outbox.forget(self)
