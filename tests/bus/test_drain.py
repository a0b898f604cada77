"""What was accepted is answered, also by a bus that is told to end while the gate holds events."""

from __future__ import annotations

import asyncio

import pytest
from graia.broadcast import Broadcast

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.bus import DirtyBus
from dirtybus.errors import Draining
from dirtybus.events import DrainEnded, InferenceRequested, ShutdownRequested
from tests.arbiter.serving import BASIC, until
from tests.bus.running import running_bus


class Wanted(InferenceRequested):
    app, action = BASIC, "echo"


@pytest.mark.parametrize("queue_full", ["refuse", "wait"])
async def test_events_that_the_gate_holds_are_run_before_the_end(queue_full: str) -> None:
    ends: list[bool] = []

    def before(_: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(DrainEnded)
        def note(clean: bool) -> None:
            ends.append(clean)

    gate = {"max_concurrent": 2}
    async with running_bus(before=before, gate=gate, queue_full=queue_full, max_queued=1) as (bus, _):
        events = [bus.post(InferenceRequested(BASIC, "sleep", (0.1,))) for _ in range(6)]
        await until(lambda: bus.arbiter.ledger.open)
        bus.post(ShutdownRequested("while four are held"))
        await until(lambda: bus.arbiter.status()["state"] == "draining")
        with pytest.raises(Draining):
            await bus.call(BASIC, "echo", 1)
        assert await asyncio.gather(*(event.outcome() for event in events)) == [0.1] * 6
    assert ends == [True]


async def test_a_listener_of_a_held_event_may_still_ask_the_workers() -> None:
    def before(_: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(Wanted)
        async def run(event: Wanted, client: Arbiter) -> None:
            first = await client.call(BASIC, "sleep", 0.1)
            event.answer(first + await client.call(BASIC, "echo", 1))

    async with running_bus(before=before, gate={"max_concurrent": 1}) as (bus, _):
        events = [bus.post(Wanted()) for _ in range(3)]
        await until(lambda: bus.arbiter.ledger.open)
        bus.post(ShutdownRequested("while two are held"))
        assert await asyncio.gather(*(event.outcome() for event in events)) == [1.1] * 3
