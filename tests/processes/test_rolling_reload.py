"""Reloads of a running owner under a steady load from another process: no caller notices, whatever is deployed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dirtybus import DirtyClient
from tests.apps.versioned import source
from tests.arbiter.serving import until
from tests.cli.owners import WITHIN_S, dirtybus, owner_of

APP: Final = "rolled_app:Versioned"
CALLS_PER_S: Final = 200
#: each runs for a quarter of a second, so that some are under way at any moment
TICKS: Final = (25, 0.01)


class Load:
    """Calls at a steady pace, whatever becomes of those before, and now and then a stream."""

    def __init__(self, client: DirtyClient) -> None:
        self._client = client
        self._asked: list[asyncio.Task[None]] = []
        self._is_over = False
        self.versions: set[str] = set()
        self.answered = 0
        self.streamed = 0

    async def run(self) -> None:
        """Ask until `end`; raises the first error that any of the callers got."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while not self._is_over:
            number = len(self._asked)
            self._asked.append(loop.create_task(self._stream() if number % 20 == 0 else self._call()))
            await asyncio.sleep(max(0.0, began_at + number / CALLS_PER_S - loop.time()))
        await asyncio.gather(*self._asked)
        assert self.answered + self.streamed == len(self._asked)

    def end(self) -> None:
        self._is_over = True

    async def _call(self) -> None:
        self.versions.add(await self._client.execute_async(APP, "version"))
        self.answered += 1

    async def _stream(self) -> None:
        count, _ = TICKS
        assert [tick async for tick in self._client.stream_async(APP, "ticks", *TICKS)] == list(range(count))
        self.streamed += 1


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[..., None]:
    """Put the app's text there, as a whole at once."""

    def deploy(version: str, init: str = "pass") -> None:
        (tmp_path / "new").write_text(source(version, init))
        (tmp_path / "new").rename(tmp_path / "rolled_app.py")

    deploy("one")
    return deploy


@pytest.mark.timeout(150)
async def test_reloads_under_200_calls_a_second_cost_no_caller_anything(
    tmp_path: Path, deploy: Callable[..., None]
) -> None:
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    env = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    with owner_of(APP, "--workers", "2", "--threads", "4", at=tmp_path, env=env) as owner:
        client = DirtyClient(owner.socket)
        load = Load(client)
        running = asyncio.create_task(load.run())

        async def is_served(version: str) -> None:
            await until(lambda: version in load.versions or running.done(), within_s=WITHIN_S)

        await is_served("one")
        for version in ("two", "three"):
            deploy(version)
            owner.send(signal.SIGHUP)
            await is_served(version)
        deploy("four")
        ended = await asyncio.to_thread(dirtybus, "reload", "--socket", owner.socket)
        assert ended.returncode == 0, ended.stderr
        await is_served("four")
        deploy("broken", "raise RuntimeError('a bad release')")
        ended = await asyncio.to_thread(dirtybus, "reload", "--socket", owner.socket)
        assert ended.returncode == 1
        assert "RuntimeError: a bad release" in ended.stderr

        load.end()
        await running
        status = await asyncio.to_thread(client.status)
        await client.close_async()
        client.close()
    assert load.versions == {"one", "two", "three", "four"}
    assert load.streamed > 10
    assert status["ledger"]["submitted"] == status["ledger"]["succeeded"] == load.answered + load.streamed
