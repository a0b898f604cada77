"""dirtybus, called from the process that owns the workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import ClassVar

from loguru import logger

from benchmarks.load import CallAsync
from benchmarks.subjects.payload import REQUEST
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig

__all__ = ["Inside"]

APP = "benchmarks.subjects.dirtybus_app:Bench"


class Inside:
    is_async: ClassVar[bool] = True
    _arbiter: Arbiter

    async def open(self, socket_path: str, workers: int) -> None:
        logger.remove()
        self._arbiter = Arbiter(DirtyConfig.of(APP, workers=workers))
        await self._arbiter.start()
        self._arbiter.admit()
        await self.caller()()

    def caller(self) -> CallAsync:
        return partial(self._arbiter.call, APP, "echo", REQUEST)

    def stream(self, chunks: int) -> AsyncIterator[object]:
        return self._arbiter.stream(APP, "count", (chunks,))

    async def close(self) -> None:
        await self._arbiter.close()
