"""Autoscaling as users meet it: it follows the load, sleeps without one, and does what listeners say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from graia.broadcast import Broadcast
from graia.broadcast.exceptions import PropagationCancelled

from dirtybus.bus import DirtyBus
from dirtybus.config import DirtyConfig
from dirtybus.events import InferenceRequested, ReloadEnded, ScaleRequested
from dirtybus.services.scale_service import memory_in_use
from tests.arbiter.serving import BASIC, until
from tests.bus.running import running_bus

#: so long that only the policy adds workers
NEVER = "1h"
QUICK: dict[str, Any] = {
    "pool_size": "1-4",
    "scale_up_after": NEVER,
    "max_idle_time": 0,
    "scaling": {
        "policy": "target",
        "target_busy": 0.5,
        "interval": 0.02,
        "window": 0.3,
        "up_cooldown": 0,
        "down_cooldown": 0.1,
        "max_memory": 1.0,
    },
}


async def load(bus: DirtyBus, calls: int, span_s: float = 0.3) -> None:
    asked = [bus.ask(InferenceRequested(BASIC, "sleep", (span_s,))) for _ in range(calls)]
    assert await asyncio.gather(*asked) == [span_s] * calls


def size(bus: DirtyBus) -> int:
    return int(bus.arbiter.status()["target"])


async def test_it_grows_with_the_load_and_shrinks_without() -> None:
    asked: list[ScaleRequested] = []

    def before(_: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(ScaleRequested)
        async def note(event: ScaleRequested) -> None:
            asked.append(event)

    async with running_bus(before=before, **QUICK) as (bus, _):
        working = asyncio.create_task(load(bus, 12))
        await until(lambda: size(bus) == 4)
        await working
        await until(lambda: size(bus) == 1)
    assert "calls at a time need 4 workers at 50% of their time" in asked[-2].why or len(asked) > 2


async def test_without_a_load_at_the_least_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def look() -> float:
        looks.append(0.0)
        return 0.0

    monkeypatch.setattr("dirtybus.services.scale_service.memory_in_use", look)
    async with running_bus(**QUICK) as (bus, _):
        await load(bus, 1, 0.01)
        work = bus.arbiter.on_work.__self__  # type: ignore[union-attr]
        await until(lambda: looks and size(bus) == 1 and not work.is_set())
        before = len(looks)
        await asyncio.sleep(0.2)
        assert len(looks) == before
        await load(bus, 1, 0.01)
        await until(lambda: len(looks) > before)


async def test_a_listener_can_say_no_and_another_number() -> None:
    def before(_: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(ScaleRequested, priority=1)
        async def decide(event: ScaleRequested) -> None:
            if event.why != "mine":
                broadcast.postEvent(ScaleRequested(2, why="mine"))
                raise PropagationCancelled

    async with running_bus(before=before, **QUICK) as (bus, _):
        await load(bus, 12)
        assert size(bus) == 2


async def test_without_a_policy_no_call_costs_anything_and_a_reload_brings_one() -> None:
    settings = {**QUICK, "scaling": {}}
    async with running_bus(**settings) as (bus, broadcast):
        await load(bus, 4, 0.01)
        assert bus.arbiter.on_work is None
        await bus.arbiter.reload(DirtyConfig.of(BASIC, **QUICK))
        broadcast.postEvent(ReloadEnded())
        await until(lambda: bus.arbiter.on_work is not None)
        working = asyncio.create_task(load(bus, 12))
        await until(lambda: size(bus) == 4)
        await working


def test_the_memory_of_the_machine_is_a_share() -> None:
    assert 0.0 <= memory_in_use() < 1.0
