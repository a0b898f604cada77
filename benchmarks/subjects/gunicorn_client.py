"""gunicorn.dirty, called over its Unix socket. Each thread or task has a client, as one serves one call at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, ClassVar

from gunicorn.dirty import DirtyClient
from gunicorn.dirty.errors import DirtyError

from benchmarks.load import Call, CallAsync
from benchmarks.subjects.owning import OwnerProgram
from benchmarks.subjects.payload import REQUEST

__all__ = ["GunicornAsync", "GunicornSync"]

APP = "benchmarks.subjects.gunicorn_app:Bench"
OWNER = "benchmarks.subjects.gunicorn_owner"
_ANSWERS_WITHIN_S = 20.0


class _Clients:
    """The program that owns the workers, and the clients made so far."""

    def __init__(self, socket_path: str, workers: int) -> None:
        self._path = socket_path
        self._made: list[Any] = []
        self._owner = OwnerProgram(OWNER, socket_path, workers)
        self._wait_for_answer()

    def make(self) -> Any:
        client = DirtyClient(self._path)
        self._made.append(client)
        return client

    def close(self) -> None:
        for client in self._made:
            client.close()
        self._owner.close()

    async def close_async(self) -> None:
        for client in self._made:
            await client.close_async()
        await asyncio.to_thread(self._owner.close)

    def _wait_for_answer(self) -> None:
        """Call until a call is answered: it listens before it has workers, and refuses until then."""
        gives_up_at = time.monotonic() + _ANSWERS_WITHIN_S
        while True:
            with DirtyClient(self._path) as client:
                try:
                    client.execute(APP, "echo", REQUEST)
                except DirtyError:
                    if time.monotonic() > gives_up_at:
                        raise
                    time.sleep(0.005)
                else:
                    return


class GunicornSync:
    is_async: ClassVar[bool] = False
    _clients: _Clients

    def open(self, socket_path: str, workers: int) -> None:
        self._clients = _Clients(socket_path, workers)

    def caller(self) -> Call:
        return partial(self._clients.make().execute, APP, "echo", REQUEST)

    def stream(self, chunks: int) -> Iterator[object]:
        stream: Iterator[object] = self._clients.make().stream(APP, "count", chunks)
        return stream

    def close(self) -> None:
        self._clients.close()


class GunicornAsync:
    is_async: ClassVar[bool] = True
    _clients: _Clients

    async def open(self, socket_path: str, workers: int) -> None:
        self._clients = await asyncio.to_thread(_Clients, socket_path, workers)

    def caller(self) -> CallAsync:
        return partial(self._clients.make().execute_async, APP, "echo", REQUEST)

    def stream(self, chunks: int) -> AsyncIterator[object]:
        stream: AsyncIterator[object] = self._clients.make().stream_async(APP, "count", chunks)
        return stream

    async def close(self) -> None:
        await self._clients.close_async()
