"""Calls from tasks to one of gunicorn's arbiters; a connection serves one call at a time, so answers never mix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from dirtybus.compat.gunicorn.gd1_caller import name_of, word_of
from dirtybus.compat.gunicorn.limits import Countdown, Limits
from dirtybus.errors import DirtyConnectionError
from dirtybus.in_thread import in_thread
from dirtybus.protocol.frames import GD1, FrameBuffer
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.protocol.gd1_messages import Ask, Chunk, Message, Response
from dirtybus.transport.listener import connect

__all__ = ["Gd1AsyncCaller"]

_RECEIVE_BYTES = 256 * 1024
_MAX_IDLE = 16


class _Link:
    """One connection to an arbiter, on one event loop."""

    def __init__(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer
        self._frames = FrameBuffer(MAX_PAYLOAD_BYTES, versions=frozenset({GD1}))
        self._last_id = 0

    @classmethod
    async def open(cls, path: str, wait_s: float | None) -> _Link:
        sock = await in_thread(partial(connect, path, timeout_s=wait_s))
        return cls(path, *await asyncio.open_unix_connection(sock=sock))

    @property
    def is_open(self) -> bool:
        """Whether the arbiter has not hung up yet, as far as this loop has heard."""
        return not self._writer.is_closing() and not self._reader.at_eof()

    async def ask(self, ask: Ask) -> None:
        frame = encode_message(ask, self._last_id + 1)
        self._last_id += 1
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except OSError as exc:
            raise DirtyConnectionError(f"Communication error: {exc.strerror or exc}", self._path) from exc

    async def receive(self) -> Message:
        """Return the next word on the last question."""
        while True:
            frame = self._frames.next_frame()
            if frame is None:
                await self._receive_some()
            elif frame.id == self._last_id:
                return decode_message(frame)

    def close(self) -> None:
        self._writer.close()

    async def _receive_some(self) -> None:
        try:
            received = await self._reader.read(_RECEIVE_BYTES)
        except OSError as exc:
            raise DirtyConnectionError(f"Communication error: {exc.strerror or exc}", self._path) from exc
        if not received:
            raise DirtyConnectionError("the arbiter hung up before it answered", self._path)
        self._frames.feed(received)


class Gd1AsyncCaller:
    """Any number of tasks, of any event loop, call the arbiter at ``path``; connections are kept for the next call.

    A call that is given up, or cancelled, takes its connection with it, as in `Gd1Caller`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: dict[asyncio.AbstractEventLoop, list[_Link]] = {}

    async def result(self, ask: Ask, limits: Limits) -> Any:
        """Return the response, or the list of chunks. Raises as `words`; cancelling gives the call up."""
        chunks = []
        async with aclosing(self.words(ask, limits)) as words:
            async for answer in words:
                if isinstance(answer, Response):
                    return answer.result
                chunks.append(answer.value)
        return chunks

    async def words(self, ask: Ask, limits: Limits) -> AsyncGenerator[Response | Chunk, None]:
        """Yield the one response, or the chunks, to ``ask``. Closing the iterator gives the call up.

        Raises as `Gd1Caller.words`.
        """
        countdown = Countdown(limits, name_of(ask))
        link: _Link | None = None
        is_over = False
        try:
            with countdown.enforced():
                async with asyncio.timeout(countdown.wait_s()):
                    link = await self._take(countdown.wait_s())
                    await link.ask(ask)
                while not is_over:
                    async with asyncio.timeout(countdown.wait_s()):
                        answer = await link.receive()
                    is_over = not isinstance(answer, Chunk)
                    if (word := word_of(answer, self._path)) is not None:
                        yield word
        finally:
            if link is not None:
                self._leave(link, is_over=is_over)

    def close(self) -> None:
        """Hang up the running loop's connections that no call uses now. May be called twice."""
        for link in self._idle.pop(asyncio.get_running_loop(), []):
            link.close()

    async def _take(self, wait_s: float | None) -> _Link:
        self._forget_closed_loops()
        idle = self._idle.get(asyncio.get_running_loop(), [])
        while idle:
            link = idle.pop()
            if link.is_open:
                return link
            link.close()
        return await _Link.open(self._path, wait_s)

    def _leave(self, link: _Link, *, is_over: bool) -> None:
        idle = self._idle.setdefault(asyncio.get_running_loop(), [])
        if is_over and len(idle) < _MAX_IDLE:
            idle.append(link)
        else:
            link.close()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._idle if loop.is_closed()]:
            del self._idle[loop]
