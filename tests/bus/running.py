"""A bus under a plain Launart and a plain Broadcast, in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from graia.broadcast import Broadcast
from launart import Launart

from dirtybus.bus import DirtyBus
from dirtybus.events import ShutdownRequested
from tests.arbiter.serving import BASIC, until


@asynccontextmanager
async def running_bus(
    *apps: str, before: Callable[[DirtyBus, Broadcast], object] | None = None, **settings: Any
) -> AsyncIterator[tuple[DirtyBus, Broadcast]]:
    """Yield an opened bus and its broadcast; ``before`` runs when it is installed and nothing has started."""
    launart, broadcast = Launart(), Broadcast()
    broadcast._background_tasks = set()  # graia shares one set among all instances
    broadcast._loop = asyncio.get_running_loop()
    bus = DirtyBus(apps=apps or (BASIC,), **settings)
    bus.install(launart, broadcast)
    if before is not None:
        before(bus, broadcast)
    launching = asyncio.create_task(launart.launch())
    try:
        await until(lambda: bus.locker.opened or launching.done())
        if launching.done():
            await launching
            raise AssertionError("the bus ended before it opened")
        yield bus, broadcast
    finally:
        if not launching.done():
            bus.post(ShutdownRequested("the test is over"))
        async with asyncio.timeout(60):
            await launching
        bus.arbiter.ledger.check()
