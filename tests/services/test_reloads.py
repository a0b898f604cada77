from __future__ import annotations

import asyncio

import pytest
from loguru import logger

from dirtybus.config import DirtyConfig
from dirtybus.errors import BootFailed, ConfigError, DirtyError, Draining
from dirtybus.events import DrainBegun, ReloadEnded, ReloadRequested
from dirtybus.services import WorkerService
from dirtybus.services.reloads import Reloads
from tests.services.application import Application
from tests.services.test_embedded_launch import WITHIN_S, Said, launched, make


class Run:
    """A reload that takes until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.gates: list[asyncio.Event] = []
        self.outcomes: list[DirtyError | None] = []

    async def __call__(self) -> None:
        self.begun += 1
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()

    def reloads(self) -> Reloads:
        return Reloads(self, self.outcomes.append)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_those_who_ask_while_one_runs_share_the_next_one() -> None:
    run = Run()
    reloads = run.reloads()
    first = reloads.ask()
    await turns()
    second, third = reloads.ask(), reloads.ask()
    assert second is third
    assert run.begun == 1
    run.gates[0].set()
    assert await first is None
    await turns()
    assert run.begun == 2
    run.gates[1].set()
    assert await second is None
    await reloads.end()
    assert run.outcomes == [None, None]


async def test_those_who_ask_before_it_begins_share_it() -> None:
    run = Run()
    reloads = run.reloads()
    first, second = reloads.ask(), reloads.ask()
    assert first is second
    await turns()
    assert reloads.ask() is not first
    await reloads.end()


async def test_what_is_no_error_of_ours_becomes_one() -> None:
    async def fail() -> None:
        raise KeyError("callback")

    outcomes: list[DirtyError | None] = []
    error = await Reloads(fail, outcomes.append).ask()
    assert str(error) == "the reload failed: KeyError: 'callback'"
    assert outcomes == [error]


async def test_the_end_gives_up_what_runs_and_what_waits_and_refuses_more() -> None:
    run = Run()
    reloads = run.reloads()
    first = reloads.ask()
    await turns()
    second = reloads.ask()
    await reloads.end()
    assert isinstance(await first, Draining)
    assert isinstance(await second, Draining)
    assert isinstance(await reloads.ask(), Draining)
    assert run.begun == 1


# --- in the service ---


def service_of(application: Application) -> WorkerService:
    service = application.launart.get_component("dirtybus.workers")
    assert isinstance(service, WorkerService)
    return service


class Heard:
    """What became of each reload, as the bus was told."""

    def __init__(self, application: Application) -> None:
        self.errors: asyncio.Queue[DirtyError | None] = asyncio.Queue()

        async def ended(event: ReloadEnded) -> None:
            self.errors.put_nowait(event.error)

        application.broadcast.receiver(ReloadEnded)(ended)

    async def next(self) -> DirtyError | None:
        return await asyncio.wait_for(self.errors.get(), WITHIN_S)


async def test_a_reload_on_the_bus_is_done_beside_it_and_told_of() -> None:
    said = Said()
    application = make(said)
    heard = Heard(application)
    async with launched(application):
        await said.until("admission open")
        # its listeners end though the reload goes on
        await asyncio.wait_for(application.broadcast.postEvent(ReloadRequested()), WITHIN_S)
        await said.until("reload began")
        assert heard.errors.empty()
        application.arbiter.may_reload.set()
        assert await heard.next() is None
    assert application.arbiter.reloaded_with == [None]


async def test_a_reload_that_fails_is_told_of_and_the_application_goes_on() -> None:
    said = Said()
    failure = BootFailed("the new model is missing")
    application = make(said, reload_errors=[failure])
    application.arbiter.may_reload.set()
    heard = Heard(application)
    async with launched(application) as task:
        await said.until("admission open")
        application.broadcast.postEvent(ReloadRequested())
        assert await heard.next() is failure
        with pytest.raises(BootFailed):
            application.arbiter.reload_errors.append(failure)
            await service_of(application).reload()
        assert not task.done()
        assert not application.guard.is_told_to_end


async def test_a_reload_brings_the_settings_of_its_beginning_and_the_spans_of_the_exit_follow() -> None:
    said = Said()
    application = make(said)
    application.arbiter.may_reload.set()
    fresh = DirtyConfig(workers=0, graceful_timeout_s=7.0, drain_delay_s=0.5)
    service_of(application)._settings = lambda: fresh
    async with launched(application):
        await said.until("admission open")
        await service_of(application).reload()
        assert application.arbiter.reloaded_with == [fresh]
        assert (application.guard.limits.graceful_s, application.guard.remaining_s) == (7.0, 7.0)
        assert application.guard.signals.limits.hard_s == 0.5 + 7.0 + application.guard.limits.margin_s
        application.guard.limits = application.guard.limits.__class__(graceful_s=1.0)


async def test_settings_that_cannot_be_read_fail_the_reload_before_any_worker_is_touched() -> None:
    def broken() -> DirtyConfig:
        raise ConfigError("workers: 'many' is not a whole number")

    said = Said()
    application = make(said)
    service_of(application)._settings = broken
    async with launched(application):
        await said.until("admission open")
        with pytest.raises(ConfigError, match="many"):
            await service_of(application).reload()
    assert "reload began" not in said


async def test_who_leaves_does_not_take_the_reload_along() -> None:
    said = Said()
    application = make(said)
    heard = Heard(application)
    async with launched(application):
        await said.until("admission open")
        asking = asyncio.create_task(service_of(application).reload())
        await said.until("reload began")
        asking.cancel()
        await asyncio.wait({asking})
        application.arbiter.may_reload.set()
        assert await heard.next() is None
    assert "reloaded" in said


async def test_the_end_refuses_a_reload_and_gives_up_the_one_that_runs() -> None:
    said = Said()
    application = make(said)
    heard = Heard(application)
    refused: list[BaseException] = []

    async def begun(_event: DrainBegun) -> None:
        try:
            await service_of(application).reload()
        except Draining as exc:
            refused.append(exc)

    application.broadcast.receiver(DrainBegun)(begun)
    async with launched(application) as task:
        await said.until("admission open")
        application.broadcast.postEvent(ReloadRequested())
        await said.until("reload began")
        application.guard.request_exit("test")
        assert isinstance(await heard.next(), Draining)
        await asyncio.wait_for(task, WITHIN_S)
    assert len(refused) == 1
    assert "reloaded" not in said


@pytest.mark.parametrize(("lost", "level"), [(0, "INFO"), (1, "WARNING")])
async def test_the_books_are_logged_at_the_end_and_a_loss_is_a_warning(lost: int, level: str) -> None:
    said = Said()
    application = make(said)
    ledger = application.arbiter.ledger
    ledger.submitted, ledger.succeeded, ledger.lost = 3 + lost, 3, lost
    lines: list[tuple[str, str]] = []
    sink = logger.add(lambda message: lines.append((message.record["level"].name, message.record["message"])))
    try:
        async with launched(application) as task:
            await said.until("admission open")
            application.guard.request_exit("test")
            await asyncio.wait_for(task, WITHIN_S)
    finally:
        logger.remove(sink)
    line = f"calls: submitted={3 + lost} succeeded=3 failed=0 cancelled=0 expired=0 refused=0 lost={lost} late=0"
    assert [each for each in lines if each[1].startswith("calls:")] == [(level, line)]
