"""An arbiter with real workers, for as long as a test needs it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.events import LifecycleEvent
from dirtybus.pool import ports

BASIC = "tests.apps.basic:Basic"
OTHER = "tests.apps.basic:Other"
MARKING = "tests.apps.basic:Marking"
_MOST_CHECKED = 200
_STEPS_CHECKED, _THEN_ONE_IN = 2_000, 97


@asynccontextmanager
async def serving(*apps: str, **settings: Any) -> AsyncIterator[Arbiter]:
    """Yield a started arbiter; its books must balance at the end, and agree after each step of its pool."""
    observer = settings.pop("observer", None)
    arbiter = Arbiter(DirtyConfig.of(*(apps or (BASIC,)), **settings), observer=observer)
    broken = audited(arbiter)
    try:
        await arbiter.listen()
        await arbiter.start()
        arbiter.admit()
        yield arbiter
    finally:
        await arbiter.close()
        arbiter.ledger.check()
        assert arbiter.ledger.open == 0
    assert not broken, broken[0]


def audited(arbiter: Arbiter) -> list[AssertionError]:
    """Check the invariants after each step of the pool; returns where the failures will stand.

    They are not raised: most steps run in callbacks of the loop, which would only log them.
    """
    interpreter = arbiter._interpreter
    feed, broken, steps = interpreter._feed, list[AssertionError](), itertools.count(1)

    def feed_and_check(fact: ports.Fact) -> None:
        feed(fact)
        # the check looks at every call; with many steps, or calls, it would be most of what a test does
        step = next(steps)
        is_spared = step > _STEPS_CHECKED and step % _THEN_ONE_IN
        if not (interpreter._is_applying or is_spared) and arbiter.ledger.open < _MOST_CHECKED:
            try:
                arbiter.check_invariants()
            except AssertionError as exc:
                broken.append(AssertionError(f"after {fact}: {exc}"))

    interpreter._feed = feed_and_check  # type: ignore[method-assign]
    return broken


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
