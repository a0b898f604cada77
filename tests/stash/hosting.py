"""A keeper with its host, on a file or a store of the test's own, for as long as a test needs it."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dirtybus.config.stash import StashConfig
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash
from dirtybus.stash.host import StashHost
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.store import StashStore

WITHIN_S = 20.0


class Hosted:
    def __init__(self, host: StashHost, keeper: Keeper) -> None:
        self.host = host
        self.keeper = keeper
        self.aio = AsyncStash(AsyncLocalPort(LocalPort(keeper)))
        #: for threads
        self.blocking = Stash(LocalPort(keeper))

    def store_state(self) -> dict[str, Any]:
        assert self.keeper.recorder is not None
        return self.keeper.recorder.state()


def keeper_of(
    path: str, *, clock: Callable[[], float] = time.monotonic, first_version: int | None = None, **settings: Any
) -> Keeper:
    return Keeper(StashConfig(persist=path, **settings), clock=clock, first_version=first_version)


@asynccontextmanager
async def hosted(
    path: str, store: StashStore | None = None, *, clock: Callable[[], float] = time.monotonic, **settings: Any
) -> AsyncIterator[Hosted]:
    """Yield a started keeper; stopped at the end, it has written all and left no thread."""
    keeper = keeper_of(path, clock=clock, **settings)
    host = StashHost(keeper, store)
    await host.start()
    try:
        yield Hosted(host, keeper)
    finally:
        await host.stop(WITHIN_S)
    names = {thread.name for thread in threading.enumerate()}
    assert "dirtybus-stash" not in names
