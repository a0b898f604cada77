"""The outcome of one event, settled once, and its chunks on the way. Knows nothing of calls or of the bus."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["ChunkReader", "Outcome"]


class Outcome:
    """What became of one event; knows who waits for it."""

    _ids = itertools.count(1)

    def __init__(self) -> None:
        self.id = next(self._ids)
        #: when the event came to be, on `time.monotonic`: its deadline counts from here
        self.born_at = time.monotonic()
        self.settled = False
        self.streamed = False
        self.deferred = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.collected: list[Any] = []
        self.reader: ChunkReader | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[Callable[[], object]] = []

    def settle(self, value: Any, error: BaseException | None) -> bool:
        if self.settled:
            return False
        self.settled, self.value, self.error = True, value, error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        if self.reader is not None:
            self.reader.close()
        return True

    def when_settled(self, callback: Callable[[], object]) -> None:
        if self.settled:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> Any:
        if not self.settled:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
        if self.error is not None:
            raise self.error
        return self.value

    async def emit(self, chunk: Any) -> None:
        if self.reader is None:
            self.collected.append(chunk)
        else:
            await self.reader.put(chunk)


class ChunkReader:
    """The chunks of one streamed event, between the listener that makes them and the caller that reads them."""

    def __init__(self, room: int = 32) -> None:
        self._chunks: deque[Any] = deque()
        self._room = room
        self._closed = False
        self._changed = asyncio.Event()

    async def put(self, chunk: Any) -> None:
        """Add a chunk; waits for room. Dropped when the reader has left."""
        while len(self._chunks) >= self._room and not self._closed:
            await self._wait()
        if not self._closed:
            self._chunks.append(chunk)
            self._changed.set()

    def close(self) -> None:
        """No more chunks will come, or none are wanted; wakes both sides."""
        self._closed = True
        self._changed.set()

    async def next(self) -> tuple[Any] | None:
        """Return the next chunk in a tuple of one, or None after the last."""
        while not self._chunks:
            if self._closed:
                return None
            await self._wait()
        chunk = self._chunks.popleft()
        self._changed.set()
        return (chunk,)

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()
