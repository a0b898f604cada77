from __future__ import annotations

import asyncio
from typing import Any

import pytest
from graia.broadcast import Broadcast

from dirtybus.bus import DirtyBus
from dirtybus.events import InferenceRequested
from tests.arbiter.serving import BASIC
from tests.bus.running import running_bus

MANY = 10_000


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_ten_thousand_events_posted_before_ready_are_all_answered_in_order_ten_at_a_time() -> None:
    events: list[InferenceRequested] = []
    started: list[int] = []
    now = peak = 0

    def before(bus: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(InferenceRequested)
        async def run(event: InferenceRequested, payload: int) -> None:
            nonlocal now, peak
            started.append(payload)
            now += 1
            peak = max(peak, now)
            try:
                event.answer(await bus.call(BASIC, "echo", payload))
            finally:
                now -= 1

        events.extend(bus.post(InferenceRequested(BASIC, "echo", (n,))) for n in range(MANY))

    async with running_bus(before=before, workers=2, gate={"max_concurrent": 10}) as (bus, _):
        answers = await asyncio.gather(*(event.outcome() for event in events))
        assert answers == list(range(MANY))
        assert started == list(range(MANY))
        assert peak == 10
        assert bus.arbiter.ledger.succeeded == MANY
        assert not any(count for name, count in bus.locker.counters.items() if name.startswith("dropped"))


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_in_drop_mode_none_runs_and_all_are_counted() -> None:
    events: list[InferenceRequested] = []
    ran: list[Any] = []

    def before(bus: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(InferenceRequested)
        async def run(event: InferenceRequested) -> None:
            ran.append(event)

        events.extend(bus.post(InferenceRequested(BASIC, "echo", (n,))) for n in range(MANY))

    async with running_bus(before=before, gate={"mode": "drop"}) as (bus, _):
        outcomes = await asyncio.gather(*(event.outcome() for event in events), return_exceptions=True)
        assert not ran
        assert all(isinstance(outcome, Exception) for outcome in outcomes)
        assert sum(count for name, count in bus.locker.counters.items() if name.startswith("dropped")) >= MANY
        assert bus.arbiter.ledger.submitted == 0
