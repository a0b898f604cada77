"""Calls from threads to one of gunicorn's arbiters; a connection serves one call at a time, so answers never mix."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from typing import Any

from dirtybus.compat.gunicorn.limits import Countdown, Limits
from dirtybus.errors import DirtyConnectionError, DirtyError
from dirtybus.protocol.frames import GD1, FrameBuffer
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.protocol.gd1_messages import Ask, Chunk, End, Error, Message, Request, Response

__all__ = ["Gd1Caller", "Gd1Link", "name_of", "word_of"]

_RECEIVE_BYTES = 256 * 1024
_MAX_IDLE = 16


class Gd1Link:
    """One connection to an arbiter, blocking. Raises `DirtyConnectionError` when nobody listens."""

    def __init__(self, path: str, connect_timeout_s: float | None) -> None:
        # not on top: it loads asyncio, which gevent's users patch first
        from dirtybus.transport.listener import connect

        self.path = path
        self.is_fresh = True
        self._sock = connect(path, timeout_s=connect_timeout_s)
        self._frames = FrameBuffer(MAX_PAYLOAD_BYTES, versions=frozenset({GD1}))
        self._last_id = 0

    def ask(self, ask: Ask, wait_s: float | None) -> None:
        """Send a question.

        Raises:
            EncodeError: a value cannot be sent; nothing was.
            TimeoutError: it could not be sent in time.
            OSError: the peer is gone.
        """
        frame = encode_message(ask, self._last_id + 1)
        self._last_id += 1
        self._sock.settimeout(wait_s)
        self._sock.sendall(frame)
        self.is_fresh = False

    def receive(self, countdown: Countdown) -> Message:
        """Return the next word on the last question.

        Raises:
            TimeoutError: none came in time.
            DirtyConnectionError: the arbiter hung up, or the connection broke.
            RemoteProtocolError: it sent what is no message.
        """
        while True:
            frame = self._frames.next_frame()
            if frame is None:
                self._receive_some(countdown)
            elif frame.id == self._last_id:
                return decode_message(frame)

    def close(self) -> None:
        """Hang up. May be called twice."""
        self._sock.close()

    def _receive_some(self, countdown: Countdown) -> None:
        self._sock.settimeout(countdown.wait_s())
        try:
            received = self._sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            raise
        except OSError as exc:
            raise DirtyConnectionError(f"Communication error: {exc.strerror or exc}", self.path) from exc
        if not received:
            raise DirtyConnectionError("the arbiter hung up before it answered", self.path)
        self._frames.feed(received)


class Gd1Caller:
    """Any number of threads call the arbiter at ``path``; connections are kept for the next call.

    A call that is given up takes its connection with it: that is all that gunicorn's protocol has for cancelling, and
    so what the arbiter still says on it reaches nobody.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[Gd1Link] = []

    def result(self, ask: Ask, limits: Limits) -> Any:
        """Return the response, or the list of chunks. Raises as `words`."""
        chunks = []
        with closing(self.words(ask, limits)) as words:
            for answer in words:
                if isinstance(answer, Response):
                    return answer.result
                chunks.append(answer.value)
        return chunks

    def words(self, ask: Ask, limits: Limits) -> Generator[Response | Chunk, None, None]:
        """Yield the one response, or the chunks, to ``ask``. Closing the iterator gives the call up.

        Raises:
            EncodeError: a value cannot be sent; nothing was.
            DirtyTimeoutError: a limit passed.
            DirtyConnectionError: the arbiter cannot be reached, or hung up before it answered.
            DirtyError: the arbiter's own answer.
        """
        countdown = Countdown(limits, name_of(ask))
        link: Gd1Link | None = None
        is_over = False
        try:
            with countdown.enforced():
                link = self._asked(ask, countdown)
                while not is_over:
                    answer = link.receive(countdown)
                    is_over = not isinstance(answer, Chunk)
                    if (word := word_of(answer, self._path)) is not None:
                        yield word
        finally:
            if link is not None:
                self._leave(link, is_over=is_over)

    def close(self) -> None:
        """Hang up the connections that no call uses now. May be called twice."""
        with self._lock:
            links, self._idle = self._idle, []
        for link in links:
            link.close()

    def _asked(self, ask: Ask, countdown: Countdown) -> Gd1Link:
        while True:
            link = self._take(countdown)
            was_fresh = link.is_fresh
            try:
                link.ask(ask, countdown.wait_s())
            except BaseException as exc:
                link.close()
                # a kept connection whose arbiter has gone: nothing was received there, so the next one may be tried
                if isinstance(exc, ConnectionError) and not isinstance(exc, DirtyError) and not was_fresh:
                    continue
                if isinstance(exc, OSError) and not isinstance(exc, TimeoutError | DirtyError):
                    raise DirtyConnectionError(f"Communication error: {exc.strerror or exc}", self._path) from exc
                raise
            return link

    def _take(self, countdown: Countdown) -> Gd1Link:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Gd1Link(self._path, countdown.wait_s())

    def _leave(self, link: Gd1Link, *, is_over: bool) -> None:
        with self._lock:
            if is_over and len(self._idle) < _MAX_IDLE:
                self._idle.append(link)
                return
        link.close()


def word_of(answer: Message, path: str) -> Response | Chunk | None:
    """Return what the arbiter at ``path`` says of a call; None when it has said all.

    Raises:
        DirtyError: it says that the call failed.
        DirtyConnectionError: it says something else.
    """
    match answer:
        case Error(error=error):
            raise DirtyError.from_dict(error)
        case Response() | Chunk():
            return answer
        case End():
            return None
    raise DirtyConnectionError(f"the arbiter answered with a {type(answer).__name__}", path)


def name_of(ask: Ask) -> str:
    """Return what a call is called in messages."""
    return f"{ask.app} {ask.action}" if isinstance(ask, Request) else type(ask).__name__
