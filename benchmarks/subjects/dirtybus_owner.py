"""An arbiter of dirtybus for other processes, until stdin ends. Says READY when it listens.

``dirtybus_owner SOCKET WORKERS [SETTING=VALUE]...``
"""

from __future__ import annotations

import asyncio
import sys

from loguru import logger

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig

APP = "benchmarks.subjects.dirtybus_app:Bench"


async def serve(path: str, workers: str, *settings: str) -> None:
    more = dict(setting.split("=", 1) for setting in settings)
    arbiter = Arbiter(DirtyConfig.of(APP, workers=int(workers), socket=path, **more))
    try:
        await arbiter.listen()
        await arbiter.start()
        arbiter.admit()
        print("READY", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await arbiter.close()


if __name__ == "__main__":
    logger.remove()
    asyncio.run(serve(*sys.argv[1:]))
