"""Orders of clients whose answer comes later, and readiness as clients see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.config import DirtyConfig
from dirtybus.errors import BootFailed, DirtyError, DirtyTimeoutError, Draining
from dirtybus.protocol.heads import Answer, Manage, Refusal
from tests.arbiter.serving import BASIC, serving, until
from tests.arbiter.test_sessions import peer


class Reload:
    """Stands for the reload of a bus."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.begun += 1
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def reloading(tmp_path: Path) -> AsyncIterator[tuple[Arbiter, Reload, DirtyClient]]:
    async with serving(BASIC, socket=str(tmp_path / "s")) as arbiter:
        arbiter.on_reload = reload = Reload()
        with DirtyClient(str(tmp_path / "s")) as client:
            yield arbiter, reload, client


async def test_a_reload_answers_when_it_is_over_and_other_questions_meanwhile(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (_, reload, client):
        asking = asyncio.create_task(asyncio.to_thread(client.reload))
        await until(lambda: reload.begun)
        status = await asyncio.to_thread(client.status)
        assert status["state"] == "open"
        assert not asking.done()
        reload.may_end.set()
        await asking


async def test_a_reload_that_fails_gives_the_report(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (_, reload, client):
        reload.error = BootFailed("worker 3 could not start", {"step": "init", "app": "m:C", "traceback": "ValueError"})
        reload.may_end.set()
        with pytest.raises(BootFailed, match="worker 3 could not start") as caught:
            await asyncio.to_thread(client.reload)
        assert caught.value.details["traceback"] == "ValueError"


async def test_a_defect_in_a_reload_is_an_answer_too(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (_, reload, client):
        reload.error = KeyError("defect")
        reload.may_end.set()
        with pytest.raises(DirtyError, match="the arbiter failed: KeyError"):
            await asyncio.to_thread(client.reload)


async def test_who_does_not_want_to_wait_longer_is_told_so(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (_, _reload, client):
        with pytest.raises(DirtyTimeoutError, match=r"did not answer within 0\.05 s"):
            await asyncio.to_thread(client.reload, 0.05)


async def test_a_client_that_leaves_takes_its_wait_along(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (arbiter, reload, _):
        async with peer(arbiter) as hasty:
            hasty.send(Manage(verb="reload"))
            await until(lambda: reload.begun)
        await until(lambda: reload.cancelled)


async def test_a_client_may_not_pile_up_orders(tmp_path: Path) -> None:
    async with reloading(tmp_path) as (arbiter, reload, _), peer(arbiter) as greedy:
        for number in range(1, 11):
            greedy.send(Manage(verb="reload"), number)
        refused = [await greedy.hear() for _ in range(2)]
        assert all(isinstance(each.head, Refusal) and each.head.error["code"] == "queue_full" for each in refused)
        reload.may_end.set()
        answered = [await greedy.hear() for _ in range(8)]
        assert all(isinstance(each.head, Answer) for each in answered)
        assert {each.id for each in (*refused, *answered)} == set(range(1, 11))
        greedy.send(Manage(verb="reload"), 11)
        assert isinstance((await greedy.hear()).head, Answer)


async def test_readiness_and_state_are_told_at_every_stage(tmp_path: Path) -> None:
    async with serving(BASIC, socket=str(tmp_path / "s")) as arbiter:
        assert (arbiter.status()["state"], arbiter.status()["ready"]) == ("open", True)
        arbiter.stand_down()
        with DirtyClient(str(tmp_path / "s")) as client:
            status = await asyncio.to_thread(client.status)
            assert (status["state"], status["ready"], arbiter.is_ready) == ("leaving", False, False)
            assert await asyncio.to_thread(client.execute, BASIC, "echo", 1) == 1
            arbiter.close_admission()
            assert (arbiter.status()["state"], arbiter.status()["ready"]) == ("draining", False)
            with pytest.raises(Draining):
                await asyncio.to_thread(client.execute, BASIC, "echo", 1)


def test_before_the_start_nothing_is_ready_and_no_size_is_forbidden() -> None:
    arbiter = Arbiter(DirtyConfig.of(BASIC))
    assert (arbiter.status()["state"], arbiter.status()["ready"]) == ("starting", False)
    assert arbiter.why_not(0) is None
