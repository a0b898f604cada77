"""dirtybus, called from another process over the Unix socket: one client, shared by all threads or tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import ClassVar

from benchmarks.load import Call, CallAsync
from benchmarks.subjects.owning import OwnerProgram
from benchmarks.subjects.payload import REQUEST
from dirtybus.client import DirtyClient

__all__ = ["OutsideAsync", "OutsideSync"]

APP = "benchmarks.subjects.dirtybus_app:Bench"
OWNER = "benchmarks.subjects.dirtybus_owner"


class OutsideSync:
    is_async: ClassVar[bool] = False
    _owner: OwnerProgram
    _client: DirtyClient

    def open(self, socket_path: str, workers: int) -> None:
        self._owner = OwnerProgram(OWNER, socket_path, workers)
        self._client = DirtyClient(socket_path)
        self.caller()()

    def caller(self) -> Call:
        return partial(self._client.execute, APP, "echo", REQUEST)

    def stream(self, chunks: int) -> Iterator[object]:
        return self._client.stream(APP, "count", chunks)

    def close(self) -> None:
        self._client.close()
        self._owner.close()


class OutsideAsync:
    is_async: ClassVar[bool] = True
    _owner: OwnerProgram
    _client: DirtyClient

    async def open(self, socket_path: str, workers: int) -> None:
        self._owner = await asyncio.to_thread(OwnerProgram, OWNER, socket_path, workers)
        self._client = DirtyClient(socket_path)
        await self.caller()()

    def caller(self) -> CallAsync:
        return partial(self._client.execute_async, APP, "echo", REQUEST)

    def stream(self, chunks: int) -> AsyncIterator[object]:
        return self._client.stream_async(APP, "count", chunks)

    async def close(self) -> None:
        await self._client.close_async()
        await asyncio.to_thread(self._owner.close)
