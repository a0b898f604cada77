"""An owner whose worker is busy in one of several ways, until somebody kills the owner."""

from __future__ import annotations

import asyncio
import json
import sys

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig

APP = "tests.apps.stuck:Stuck"


async def main(how: str) -> None:
    arbiter = Arbiter(DirtyConfig.of(APP, workers=2))
    await arbiter.start()
    arbiter.admit()
    calls = [asyncio.create_task(arbiter.call(APP, how)) for _ in range(2)] if how != "idle" else []
    while how != "idle" and sum(worker["running"] for worker in arbiter.status()["workers"]) < 2:
        await asyncio.sleep(0.01)
    print(json.dumps([worker["pid"] for worker in arbiter.status()["workers"]]), flush=True)
    await asyncio.gather(*calls)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
