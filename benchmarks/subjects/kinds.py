"""What a visit asks of a contestant, blocking or not. ``socket_path`` is a free place for a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import ClassVar, Protocol

from benchmarks.load import Call, CallAsync

__all__ = ["AsyncSubject", "Subject", "SyncSubject"]


class AsyncSubject(Protocol):
    """One that is called from an event loop."""

    is_async: ClassVar[bool]

    async def open(self, socket_path: str, workers: int) -> None:
        """Start all there is, and return when the first call was answered."""

    def caller(self) -> CallAsync:
        """Return what one task calls again and again."""

    def stream(self, chunks: int) -> AsyncIterator[object] | None:
        """Return a stream; None for one that has none."""

    async def close(self) -> None:
        """End every process that `open` started, and reap it."""


class SyncSubject(Protocol):
    """One that is called from threads. Methods as in `AsyncSubject`."""

    is_async: ClassVar[bool]

    def open(self, socket_path: str, workers: int) -> None: ...
    def caller(self) -> Call: ...
    def stream(self, chunks: int) -> Iterator[object] | None: ...
    def close(self) -> None: ...


Subject = AsyncSubject | SyncSubject
