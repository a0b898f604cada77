"""An arbiter with real workers, for as long as a test needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.events import LifecycleEvent

BASIC = "tests.apps.basic:Basic"
OTHER = "tests.apps.basic:Other"
MARKING = "tests.apps.basic:Marking"


@asynccontextmanager
async def serving(*apps: str, **settings: Any) -> AsyncIterator[Arbiter]:
    """Yield a started arbiter; its books must balance at the end."""
    observer = settings.pop("observer", None)
    arbiter = Arbiter(DirtyConfig.of(*(apps or (BASIC,)), **settings), observer=observer)
    try:
        await arbiter.listen()
        await arbiter.start()
        arbiter.admit()
        yield arbiter
    finally:
        await arbiter.close()
        arbiter.ledger.check()
        assert arbiter.ledger.open == 0


async def until(fact: Callable[[], Any], *, within_s: float = 20.0) -> Any:
    """Wait for ``fact`` to be true and return it; for facts that no callback tells."""
    async with asyncio.timeout(within_s):
        while not (found := fact()):
            await asyncio.sleep(0.005)
    return found


class Diary:
    """Keeps the lifecycle events in order."""

    def __init__(self) -> None:
        self.events: list[LifecycleEvent] = []

    def __call__(self, event: LifecycleEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
