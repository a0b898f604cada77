"""The standard library's process pool, called from an event loop. It has no streams."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import ClassVar

from benchmarks.load import CallAsync
from benchmarks.subjects.payload import REQUEST, echo

__all__ = ["Executor"]


class Executor:
    is_async: ClassVar[bool] = True
    _pool: ProcessPoolExecutor

    async def open(self, socket_path: str, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers)
        await self.caller()()

    def caller(self) -> CallAsync:
        return partial(asyncio.get_running_loop().run_in_executor, self._pool, echo, REQUEST)

    def stream(self, chunks: int) -> None:
        return None

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown)
