"""A DirtyBus that traces its own end: what it says of itself, what it takes, what its listeners are told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyBus, Draining, stash
from dirtybus.events import DrainBegun, DrainEnded
from tests.apps.traced import Traced, trace

APP = "tests.apps.traced:Traced"
DRAIN_DELAY_S = 1.0


def traced(owner: Any, method: str, what: Callable[[], str]) -> None:
    """Trace each call of the method once it has been done."""
    original = getattr(owner, method)

    def call(*args: object, **kwargs: object) -> object:
        done = original(*args, **kwargs)
        trace(what())
        return done

    setattr(owner, method, call)


def main(socket: str) -> None:
    bus = DirtyBus(
        apps=[Traced], socket=socket, drain_delay=DRAIN_DELAY_S, graceful_timeout=20, stop_grace=30, threads=2
    )
    broadcast = it(Broadcast)

    @broadcast.receiver(DrainBegun)
    async def begun() -> None:
        trace(f"listener: drain begun, ready={bus.is_ready}")
        trace(f"bus: a call is answered with {await bus.call(APP, 'echo', 'yes')}")

    @broadcast.receiver(DrainEnded)
    async def ended(event: DrainEnded) -> None:
        try:
            await bus.call(APP, "echo", "no")
        except Draining:
            trace("bus: a call is refused")
        trace(f"listener: drain ended, clean={event.clean}, stash={stash.current.is_bound()}")

    traced(bus.arbiter, "stand_down", lambda: f"owner: ready={bus.is_ready}")
    traced(bus.arbiter, "close_admission", lambda: "owner: admission closed")
    bus.install(it(Launart), broadcast)
    try:
        it(Launart).launch_blocking()
    finally:
        trace(f"owner: ended, stash={stash.current.is_bound()}")


if __name__ == "__main__":
    main(sys.argv[1])
