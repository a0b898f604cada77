"""Where the words on a call go in this process: into one future, or into a stream that is read chunk by chunk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from dirtybus.errors import DirtyError, DirtyTimeoutError
from dirtybus.protocol.codec import decode_body
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import Progress
from dirtybus.transport.gathered import Gathered

__all__ = ["Sink", "StreamSink", "ValueSink"]


class Sink(Protocol):
    """Takes the words on one call: any number of chunks and reports, then exactly one of reply, end, fail."""

    def chunk(self, body: Buffer) -> None: ...
    def progress(self, report: Progress) -> None: ...
    def reply(self, body: Buffer) -> None: ...
    def end(self) -> None: ...
    def fail(self, error: DirtyError) -> None: ...


class ValueSink:
    """Gathers a call's result: its value, or the list of what it yielded.

    Args:
        give_credit: lets the worker send so many more chunks.
        on_progress: told of each report; None when nobody asked.
        on_chunk: told of each chunk as it comes; None when nobody asked.
    """

    def __init__(
        self,
        give_credit: Callable[[int], None],
        on_progress: Callable[[Progress], object] | None = None,
        on_chunk: Callable[[Any], object] | None = None,
    ) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._give_credit = give_credit
        self._on_progress = on_progress
        self._on_chunk = on_chunk
        self._chunks = Gathered()

    def chunk(self, body: Buffer) -> None:
        if self.outcome.done():
            return
        try:
            self._chunks.add(body)
            self._give_credit(1)
            value = None if self._on_chunk is None else decode_body(body)
        except DirtyError as exc:
            self.fail(exc)
        else:
            if self._on_chunk is not None:
                _tell(self._on_chunk, value)

    def progress(self, report: Progress) -> None:
        if self._on_progress is not None:
            _tell(self._on_progress, report)

    def reply(self, body: Buffer) -> None:
        self._settle(lambda: decode_body(body))

    def end(self) -> None:
        self._settle(self._chunks.values)

    def fail(self, error: DirtyError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def _settle(self, read: Callable[[], object]) -> None:
        if self.outcome.done():
            return
        try:
            self.outcome.set_result(read())
        except DirtyError as exc:
            self.outcome.set_exception(exc)


class StreamSink:
    """Keeps chunks until they are read; each one read is a credit for the worker.

    Args:
        give_credit: lets the worker send so many more chunks.
        window: how many chunks may be under way; half of it read gives credit.
        on_progress: told of each report; None when nobody asked.
    """

    def __init__(
        self,
        give_credit: Callable[[int], None],
        window: int,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> None:
        self._give_credit = give_credit
        self._batch = max(1, window // 2)
        self._on_progress = on_progress
        self._owed = 0
        self._chunks: deque[Buffer] = deque()
        self._error: DirtyError | None = None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the last word was said (chunks may still be unread)."""
        return self._ended

    async def read(self, idle_timeout_s: float | None) -> tuple[Any] | None:
        """Return the next chunk in a tuple of one; None after the last.

        Raises:
            DirtyTimeoutError: nothing came within ``idle_timeout_s`` seconds.
            DirtyError: the call failed; the chunks before it were returned first.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            await self._wait(idle_timeout_s)
        body = self._chunks.popleft()
        self._pay()
        return (decode_body(body),)

    def chunk(self, body: Buffer) -> None:
        self._chunks.append(body)
        self._wake()

    def progress(self, report: Progress) -> None:
        if self._on_progress is not None:
            _tell(self._on_progress, report)

    def reply(self, body: Buffer) -> None:
        self._chunks.append(body)
        self.end()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def fail(self, error: DirtyError) -> None:
        self._error = error
        self.end()

    def _pay(self) -> None:
        self._owed += 1
        if self._owed >= self._batch and not self._ended:
            self._give_credit(self._owed)
            self._owed = 0

    async def _wait(self, idle_timeout_s: float | None) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(idle_timeout_s):
                await self._waiter
        except TimeoutError:
            raise DirtyTimeoutError(
                f"the stream sent nothing for {idle_timeout_s} s", idle_timeout_s, "stream_idle_timeout", "stream"
            ) from None
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _tell(listener: Callable[[Any], object], news: Any) -> None:
    """Call what a caller gave us. It runs where the link is read: its error must not end the link."""
    try:
        listener(news)
    except Exception as exc:
        message = f"{getattr(listener, '__qualname__', listener)} failed; the call goes on"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": exc})
