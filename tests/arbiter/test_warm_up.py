"""Warm-up: after every init, before the worker is ready; a failure is a failed boot. And staggered starts, for real."""

from __future__ import annotations

import asyncio

import pytest

from dirtybus.errors import ActionNotFound, BootFailed
from dirtybus.events import WorkerReady, WorkerSpawned
from tests.arbiter.serving import BASIC, Diary, serving

WARM, ALSO, COLD = (f"tests.apps.warming:{name}" for name in ("Warm", "AlsoWarm", "TooCold"))


async def test_apps_warm_up_after_every_init_and_before_any_call() -> None:
    async with serving(WARM, ALSO) as arbiter:
        assert await arbiter.call(WARM, "seen") == ["init Warm", "init AlsoWarm", "warm_up Warm", "warm_up AlsoWarm"]


async def test_callers_may_not_call_it() -> None:
    async with serving(WARM) as arbiter:
        with pytest.raises(ActionNotFound):
            await arbiter.call(WARM, "warm_up")


async def test_a_failure_is_a_failed_boot_that_names_the_step() -> None:
    with pytest.raises(BootFailed, match=r"warm_up of tests.apps.warming:TooCold failed after .*no wood") as caught:
        async with serving(COLD):
            pass
    assert caught.value.details["step"] == "warm_up"


async def test_so_many_workers_start_at_a_time() -> None:
    diary = Diary()
    async with serving(BASIC, workers=3, max_starting=1, observer=diary) as arbiter:
        assert len(await asyncio.gather(*(arbiter.call(BASIC, "pid") for _ in range(6)))) == 6
    steps = [type(event) for event in diary.events if isinstance(event, WorkerSpawned | WorkerReady)]
    assert steps == [WorkerSpawned, WorkerReady] * 3
