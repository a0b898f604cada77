"""A broadcast to put a locker on, and events to post on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

from graia.broadcast import Broadcast
from graia.broadcast.builtin.depend import Depend
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.locker import ProcessLocker

PLACES = ("prelude", "namespace", "inline", "all")
#: Long enough for a busy machine; a test that gets here has hung.
PATIENCE_S = 45.0
#: The same for tests marked slow, which have a timeout of their own.
LONG_PATIENCE_S = 150.0

F = TypeVar("F", bound=Callable[..., Any])


class Numbered(Dispatchable):
    """An event with a number that listeners can ask for."""

    class Dispatcher(BaseDispatcher):
        @classmethod
        async def catch(cls, interface: DispatcherInterface[Any]) -> Any:
            return interface.event.number if interface.name == "number" else None

    def __init__(self, number: int = 0) -> None:
        self.number = number


class Ping(Numbered):
    """What most tests post."""


class Pong(Numbered):
    """What the listeners of a `Ping` post, or wait for."""


class ResultReader(BaseDispatcher):
    """Reads every execution's result, so that asyncio has no unread exception to complain of."""

    async def catch(self, interface: DispatcherInterface[Any]) -> None:
        return None

    async def afterExecution(
        self, interface: DispatcherInterface[Any], exception: BaseException | None, tb: TracebackType | None
    ) -> None:
        if interface.exec_result.done():
            interface.exec_result.exception()


class Bench:
    """A broadcast of its own with ``locker`` at ``place``."""

    def __init__(self, locker: ProcessLocker, place: str = "prelude") -> None:
        self.locker = locker
        # graia's constructor says nothing of its types
        make: Any = Broadcast
        self.broadcast: Broadcast = make()
        self.broadcast._loop = asyncio.get_running_loop()
        # the class's own set is shared by all broadcasts, so by all tests
        self.broadcast._background_tasks = set()
        self.broadcast.prelude_dispatchers.insert(0, ResultReader())
        self.inline: list[Any] = []
        if place in ("prelude", "all"):
            self.broadcast.prelude_dispatchers.append(locker)
        if place in ("namespace", "all"):
            self.broadcast.default_namespace.injected_dispatchers.append(locker)
        if place in ("inline", "all"):
            self.inline = [locker]

    def on(self, event: type[Dispatchable], priority: int = 16) -> Callable[[F], F]:
        """Register a listener, with the locker inline where that is its place."""

        def register(listener: F) -> F:
            self.broadcast.receiver(event, priority=priority, dispatchers=list(self.inline))(listener)
            return listener

        return register

    def post(self, event: Dispatchable) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.broadcast.postEvent(event)
        return task

    async def run(self, *events: Dispatchable, within_s: float = PATIENCE_S) -> None:
        """Post all and wait until their listeners have ended."""
        await self.finish([self.post(event) for event in events], within_s=within_s)

    async def finish(self, tasks: Iterable[asyncio.Task[Any]], *, within_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(within_s):
            await asyncio.gather(*tasks, return_exceptions=True)


class Meter:
    """Measures how many bodies run at the same time; each takes a few turns of the loop."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self.started: list[int] = []

    async def run(self, number: int = 0) -> None:
        self.started.append(number)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await turns(3)
        finally:
            self.now -= 1


def depend(need: Callable[..., Any]) -> Any:
    """Return a `Depend` that may stand as the default of a parameter of any type."""
    return Depend(need)


async def turns(count: int) -> None:
    """Let the loop turn ``count`` times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(fact: Callable[[], bool]) -> None:
    """Wait until ``fact`` is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not fact():
            await asyncio.sleep(0)


def assert_at_rest(locker: ProcessLocker) -> None:
    """Nothing runs, nothing waits, every slot is back and every arrival is accounted for."""
    locker._permits.check_invariants()
    seen = locker.snapshot()
    assert (seen.running, seen.suspended, seen.pending) == (0, 0, 0), seen
    assert seen.free == seen.limit
    assert seen.counters["arrived"] == seen.counters["started"] + seen.dropped
