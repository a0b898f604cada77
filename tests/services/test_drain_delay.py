"""Between the order to end and the end of taking work: not ready any more, and serving as before."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dirtybus.events import DrainBegun
from dirtybus.services import ExitLimits
from tests.services.application import LIMITS, Application, UserService
from tests.services.test_embedded_launch import WITHIN_S, Said, launched, make

DELAY_S = 0.3


def delayed(said: Said, delay_s: float = DELAY_S, limits: ExitLimits = LIMITS, **arbiter: object) -> Application:
    application = make(said, limits=limits, **arbiter)
    application.guard.limits = replace(application.guard.limits, delay_s=delay_s)
    return application


async def test_readiness_goes_first_then_the_word_then_after_the_delay_the_services() -> None:
    said = Said()
    application = delayed(said)
    ready_when_told: list[bool] = []

    async def begun(event: DrainBegun) -> None:
        ready_when_told.append(application.arbiter.is_ready)
        said(f"drain begun, {event.within_s:.1f} s")

    application.broadcast.receiver(DrainBegun)(begun)
    application.add(UserService("web", said, "dirtybus.gate"))
    loop = asyncio.get_running_loop()
    async with launched(application) as task:
        await said.until("admission open")
        assert application.arbiter.is_ready
        told_at = loop.time()
        application.guard.request_exit("test")
        assert not application.arbiter.is_ready
        assert (application.guard.is_told_to_end, application.guard.is_leaving) == (True, False)
        await said.until("web cleaned")
        assert loop.time() - told_at >= DELAY_S
        await asyncio.wait_for(task, WITHIN_S)
    assert ready_when_told == [False]
    assert said[said.index("admission open") + 1 :] == [
        "drain begun, 2.3 s",
        "web cleaned",
        "admission closed",
        "workers drained clean=True",
        "arbiter closed",
    ]


async def test_without_a_delay_all_are_told_to_leave_at_once() -> None:
    said = Said()
    application = make(said)
    async with launched(application):
        await said.until("admission open")
        application.guard.request_exit("test")
        assert application.guard.is_leaving
        assert not application.arbiter.is_ready


async def test_the_delay_does_not_eat_the_time_of_the_work() -> None:
    said = Said()
    application = delayed(said, work_s=1.9)
    async with launched(application) as task:
        await said.until("admission open")
        application.guard.request_exit("test")
        assert application.guard.remaining_s == pytest.approx(2.0 + DELAY_S, abs=0.1)
        await asyncio.wait_for(task, WITHIN_S)
    assert "workers drained clean=True" in said


async def test_a_service_that_fails_ends_the_delay() -> None:
    said = Said()
    application = delayed(said, delay_s=60.0)
    failing = asyncio.Event()

    async def fail() -> None:
        await failing.wait()
        raise ValueError("on purpose")

    application.add(UserService("bad", said, block=fail))
    async with launched(application) as task:
        await said.until("admission open")
        application.guard.request_exit("test")
        assert not application.guard.is_leaving
        failing.set()
        with pytest.raises(ValueError, match="on purpose"):
            await asyncio.wait_for(task, WITHIN_S)
    assert said[-1] == "arbiter closed"


async def test_a_second_order_in_the_delay_changes_nothing_and_a_cold_one_ends_it() -> None:
    said = Said()
    application = delayed(said, delay_s=60.0, limits=replace(LIMITS, cold_s=0.5))
    async with launched(application) as task:
        await said.until("admission open")
        task.cancel()
        await asyncio.sleep(0)
        application.guard.request_exit("once more")
        assert (application.guard.is_told_to_end, application.guard.is_leaving) == (True, False)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, WITHIN_S)
    assert "arbiter killed" in said


async def test_nobody_waits_for_a_delay_before_anything_was_taken() -> None:
    said = Said()
    application = delayed(said, delay_s=60.0, boot_s=60.0)
    async with launched(application) as task:
        await said.until("workers start")
        application.guard.request_exit("test")
        await asyncio.wait_for(task, WITHIN_S)
    assert said[-1] == "arbiter closed"


async def test_a_slow_listener_of_the_word_holds_the_admission_open_longer_than_the_delay() -> None:
    said = Said()
    application = delayed(said, delay_s=0.05)
    may_end = asyncio.Event()

    async def begun() -> None:
        await may_end.wait()
        said("listener ended")

    application.broadcast.receiver(DrainBegun)(begun)
    async with launched(application) as task:
        await said.until("admission open")
        application.guard.request_exit("test")
        while not application.guard.is_leaving:
            await asyncio.sleep(0.01)
        assert "admission closed" not in said
        may_end.set()
        await asyncio.wait_for(task, WITHIN_S)
    assert said.index("listener ended") < said.index("admission closed")


def test_the_hard_end_comes_after_the_delay_too() -> None:
    assert ExitLimits(delay_s=10.0, graceful_s=20.0, margin_s=5.0).hard_s == 35.0
