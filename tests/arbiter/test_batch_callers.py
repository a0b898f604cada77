"""Callers of every kind meet in one batch: the owner's own, events, attached clients, gunicorn's clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dirtybus import InferenceRequested
from dirtybus.client import DirtyClient
from dirtybus.compat.gunicorn.gd1_caller import Gd1Caller
from dirtybus.compat.gunicorn.limits import Limits
from dirtybus.protocol.gd1_messages import Request
from tests.apps.batched import APP
from tests.bus.running import running_bus


async def test_callers_of_every_kind_meet_in_one_batch(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    async with running_bus(APP, socket=path, workers=1) as (bus, _):
        client, theirs = DirtyClient(path), Gd1Caller(path)
        limits = Limits(60)
        try:
            found = await asyncio.gather(
                bus.ask(InferenceRequested(APP, "double", (1,))),
                bus.arbiter.call(APP, "double", 2),
                client.execute_async(APP, "double", 3),
                asyncio.to_thread(theirs.result, Request(APP, "double", [4], {}), limits),
            )
        finally:
            await client.close_async()
            theirs.close()
        assert [tuple(pair) for pair in found] == [(2, 4), (4, 4), (6, 4), (8, 4)]


async def test_a_client_that_hangs_up_leaves_its_batch_to_the_others(tmp_path: Path) -> None:
    path, began, go_on = str(tmp_path / "a.sock"), tmp_path / "began", tmp_path / "go on"
    async with running_bus(APP, socket=path, workers=1) as (bus, _):
        client = DirtyClient(path)
        item = (str(began), str(go_on))
        leaving = asyncio.create_task(client.execute_async(APP, "hold", item))
        staying = [asyncio.create_task(bus.arbiter.call(APP, "hold", item)) for _ in range(3)]
        while not began.exists():
            await asyncio.sleep(0.005)
        leaving.cancel()
        await client.close_async()
        while bus.arbiter.ledger.open > 3:
            await asyncio.sleep(0.005)
        go_on.touch()
        assert await asyncio.gather(*staying) == [4, 4, 4]
