from __future__ import annotations

import asyncio

import pytest
from graia.broadcast import Broadcast

from dirtybus.config import DirtyConfig
from dirtybus.events import DirtyEvent, DrainBegun, DrainEnded, ShutdownRequested
from dirtybus.services import GateService
from tests.services.application import Application, UserService, new_launart
from tests.services.fake_arbiter import FakeArbiter
from tests.services.test_embedded_launch import WITHIN_S, Said, launched, make


def gate_of(application: Application) -> GateService:
    gate = application.launart.get_component("dirtybus.gate")
    assert isinstance(gate, GateService)
    return gate


def test_the_gate_requires_every_other_service() -> None:
    said = Said()
    application = make(said)
    application.add(UserService("db", said))
    assert gate_of(application).required == {
        "db",
        "dirtybus.arbiter",
        "dirtybus.signals",
        "dirtybus.stash",
        "dirtybus.workers",
    }


def test_the_gate_does_not_require_those_that_require_it_even_through_others() -> None:
    said = Said()
    application = make(said)
    application.add(UserService("web", said, "dirtybus.gate"), UserService("probe", said, "web"))
    assert not {"web", "probe"} & gate_of(application).required


def test_two_services_that_require_everybody_do_not_ask_each_other_for_ever() -> None:
    said = Said()
    application = make(said)

    class Nosy(UserService):
        @property
        def required(self) -> set[str]:
            return set(gate_of(application).required)

    application.add(Nosy("nosy", said))
    assert "nosy" in gate_of(application).required


async def test_the_bus_is_bound_to_the_running_loop() -> None:
    said = Said()
    application = make(said)
    other = asyncio.new_event_loop()
    other.close()
    application.broadcast._loop = other
    async with launched(application):
        await said.until("admission open")
        assert application.broadcast._loop is asyncio.get_running_loop()


async def test_held_events_are_dropped_when_the_start_fails() -> None:
    said = Said()
    application = make(said, boot_error=ValueError("no model"))

    async def listener() -> None:
        said("ran")

    class Asked(DirtyEvent):
        """An event that the locker guards, as it does any but a `LifecycleEvent`."""

    application.broadcast.receiver(Asked)(listener)
    posts: list[asyncio.Task[None]] = []

    async def post() -> None:
        posts.append(application.broadcast.postEvent(Asked()))

    application.add(UserService("poster", said, prepare=post))
    with pytest.raises(ValueError, match="no model"):
        await asyncio.wait_for(application.launart.launch(), WITHIN_S)
    await asyncio.wait_for(asyncio.gather(*posts), WITHIN_S)
    assert "ran" not in said
    assert application.locker.snapshot().dropped == 1


async def test_listeners_of_the_drain_are_waited_for_before_admission_closes() -> None:
    said = Said()
    application = make(said)

    async def begun(event: DrainBegun) -> None:
        await asyncio.sleep(0.05)
        said(f"readiness off, within {event.within_s:.0f} s")

    async def ended(event: DrainEnded) -> None:
        said(f"ended {event.clean}")

    application.broadcast.receiver(DrainBegun)(begun)
    application.broadcast.receiver(DrainEnded)(ended)
    async with launched(application) as task:
        await said.until("admission open")
        application.guard.request_exit("test")
        await asyncio.wait_for(task, WITHIN_S)
    assert said[said.index("admission open") + 1 :] == [
        "readiness off, within 2 s",
        "admission closed",
        "workers drained clean=True",
        "ended True",
        "arbiter closed",
    ]


async def test_a_listener_no_gate_knows_of_does_not_hold_up_the_drain_for_ever() -> None:
    said = Said()
    application = make(said)
    application.broadcast.prelude_dispatchers.remove(application.locker)

    async def endless(_event: ShutdownRequested) -> None:
        await asyncio.get_running_loop().create_future()

    application.broadcast.receiver(ShutdownRequested)(endless)
    async with launched(application) as task:
        await said.until("admission open")
        application.broadcast.postEvent(ShutdownRequested("test"))
        await asyncio.wait_for(task, WITHIN_S)
    assert said[-1] == "arbiter closed"
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()


def test_the_graceful_timeout_of_the_settings_becomes_the_guards() -> None:
    said = Said()
    launart = new_launart()
    arbiter = FakeArbiter(said)
    application = Application(said, arbiter, launart=launart, graceful_s=7.0)
    assert application.guard.limits.graceful_s == 7.0
    assert application.guard.limits.leave_s < 1.0
    assert isinstance(application.broadcast, Broadcast)
    assert DirtyConfig(workers=0).graceful_timeout_s == 30.0
