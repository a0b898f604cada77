from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.config import AppSpec, StashConfig
from dirtybus.errors import BootFailed, ConfigError, DirtyAppNotFoundError, Draining
from dirtybus.events import WorkerExited, WorkerReady
from tests.apps.versioned import source
from tests.arbiter.serving import Diary, serving, until

APP = "versioned_app:Versioned"
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the app's module anew."""

    def write(version: str, init: str = "pass") -> None:
        # the time stamp in a compiled file has whole seconds only: a second text within one would not be seen
        (tmp_path / "versioned_app.py").write_text(source(version, init))

    write("one")
    return write


@asynccontextmanager
async def versions(tmp_path: Path, **settings: Any) -> AsyncIterator[Arbiter]:
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    async with serving(APP, pythonpath=[str(tmp_path)], env=env, **settings) as arbiter:
        yield arbiter


def workers(arbiter: Arbiter, state: str = "") -> list[int]:
    return [each["worker"] for each in arbiter.status()["workers"] if state in ("", each["state"])]


def booting_pid(arbiter: Arbiter) -> int:
    return max((each["pid"] for each in arbiter.status()["workers"] if each["state"] == "booting"), default=0)


async def test_a_reload_brings_new_code_and_new_processes(tmp_path: Path, write: Write) -> None:
    diary = Diary()
    async with versions(tmp_path, workers=2, observer=diary) as arbiter:
        before = workers(arbiter)
        write("two")
        await arbiter.reload()
        assert await arbiter.call(APP, "version") == "two"
        await until(lambda: len(workers(arbiter)) == 2)
        assert not set(before) & set(workers(arbiter))
    exits = [event for event in diary.of(WorkerExited) if event.worker in before]
    assert [event.exit_code for event in exits] == [0, 0], "the old ones left in order"


async def test_never_more_workers_than_the_surge_nor_fewer_ready_than_before(tmp_path: Path, write: Write) -> None:
    seen: list[tuple[int, int]] = []
    async with versions(tmp_path, workers=3, max_surge=1) as arbiter, watching(arbiter, seen):
        write("two")
        await arbiter.reload()
        await until(lambda: len(workers(arbiter)) == 3)
    assert max(all_ for all_, _ in seen) == 4
    assert min(ready for _, ready in seen) == 3


async def test_without_a_surge_one_worker_at_a_time_is_missing(tmp_path: Path, write: Write) -> None:
    seen: list[tuple[int, int]] = []
    async with versions(tmp_path, workers=3, max_surge=0, max_unavailable=1) as arbiter:
        async with watching(arbiter, seen):
            write("two")
            await arbiter.reload()
        assert await arbiter.call(APP, "version") == "two"
    assert max(all_ for all_, _ in seen) == 3
    assert min(ready for _, ready in seen) == 2


@asynccontextmanager
async def watching(arbiter: Arbiter, seen: list[tuple[int, int]]) -> AsyncIterator[None]:
    watch = asyncio.create_task(_watch(arbiter, seen))
    try:
        yield
    finally:
        watch.cancel()


async def _watch(arbiter: Arbiter, seen: list[tuple[int, int]]) -> None:
    while True:
        states = [each["state"] for each in arbiter.status()["workers"]]
        seen.append((len(states), sum(state in ("idle", "busy") for state in states)))
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "init", ["raise RuntimeError('bad release')", "import os; os._exit(5)", "import ctypes; ctypes.string_at(0)"]
)
async def test_a_generation_that_cannot_boot_changes_nothing(tmp_path: Path, write: Write, init: str) -> None:
    async with versions(tmp_path, workers=2) as arbiter:
        before = workers(arbiter)
        write("two", init)
        with pytest.raises(BootFailed) as caught:
            await arbiter.reload()
        assert (caught.value.details["step"], caught.value.details["app"]) == ("init", APP)
        assert await arbiter.call(APP, "version") == "one"
        await until(lambda: workers(arbiter) == before)
        write("three")
        await arbiter.reload()
        assert await arbiter.call(APP, "version") == "three"


async def test_code_that_cannot_be_imported_starts_no_worker(tmp_path: Path, write: Write) -> None:
    diary = Diary()
    async with versions(tmp_path, observer=diary) as arbiter:
        (tmp_path / "versioned_app.py").write_text("this is no Python")
        with pytest.raises(BootFailed, match="SyntaxError"):
            await arbiter.reload()
        assert await arbiter.call(APP, "version") == "one"
    assert len(diary.of(WorkerReady)) == 1


async def test_no_call_and_no_stream_fails_while_generations_change(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=2) as arbiter:
        stop = asyncio.Event()
        answers: list[str] = []

        async def ask() -> None:
            while not stop.is_set():
                answers.append(await arbiter.call(APP, "version"))

        stream = arbiter.stream(APP, "ticks", (20, 0.02))
        first = await anext(stream)
        asking = [asyncio.create_task(ask()) for _ in range(8)]
        for version in ("two", "three"):
            write(version)
            await arbiter.reload()
        assert [first, *[tick async for tick in stream]] == list(range(20)), "streamed on in its old worker"
        await until(lambda: answers[-1] == "three")
        stop.set()
        await asyncio.gather(*asking)
        assert arbiter.ledger.submitted == arbiter.ledger.succeeded == len(answers) + 1


async def test_a_busy_old_worker_finishes_its_call(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=1) as arbiter:
        call = asyncio.create_task(arbiter.call(APP, "sleep", 0.8))
        await until(lambda: workers(arbiter, "busy"))
        write("two")
        await arbiter.reload()
        assert not call.done()
        assert await arbiter.call(APP, "version") == "two"
        assert await call == "one"


async def test_settings_and_apps_change_with_a_reload(tmp_path: Path, write: Write) -> None:
    basic = "tests.apps.basic:Basic"
    async with versions(tmp_path, workers=2) as arbiter:
        more = replace(arbiter.config, apps=(AppSpec(basic),), workers=3, timeout_s=7.0)
        await arbiter.reload(more)
        assert await arbiter.call(basic, "echo", 1) == 1
        assert (arbiter.target, arbiter.config.timeout_s) == (3, 7.0)
        with pytest.raises(DirtyAppNotFoundError):
            await arbiter.call(APP, "version")


async def test_a_number_that_was_scaled_to_survives_a_reload(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=1) as arbiter:
        arbiter.resize(3)
        await arbiter.reload()
        assert arbiter.target == 3


async def test_what_is_bound_to_the_owner_cannot_be_reloaded(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path) as arbiter:
        with pytest.raises(ConfigError, match="max_payload_bytes cannot change"):
            await arbiter.reload(replace(arbiter.config, max_payload_bytes=1024))
        with pytest.raises(ConfigError, match="stash cannot change"):
            await arbiter.reload(replace(arbiter.config, stash=StashConfig(max_tables=5)))
        assert await arbiter.call(APP, "version") == "one"


async def test_reloads_at_once_come_one_after_the_other(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=2) as arbiter:
        await asyncio.gather(*(arbiter.reload() for _ in range(3)))
        assert workers(arbiter, "idle") == [7, 8] or len(workers(arbiter)) <= 3
        assert await arbiter.call(APP, "version") == "one"


async def test_who_does_not_wait_leaves_the_reload_to_itself(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=2) as arbiter:
        write("two")
        reload = asyncio.create_task(arbiter.reload())
        await until(lambda: len(workers(arbiter)) == 3)
        reload.cancel()
        await until(lambda: sorted(workers(arbiter, "idle")) == [3, 4])
        write("three")
        await arbiter.reload()
        assert await arbiter.call(APP, "version") == "three"


async def test_a_drain_ends_a_reload(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=2) as arbiter:
        write("two", "import time; time.sleep(30)")
        reload = asyncio.create_task(arbiter.reload())
        await until(lambda: len(workers(arbiter)) == 3)
        assert await arbiter.drain(10)
        with pytest.raises(Draining):
            await reload
        with pytest.raises(Draining):
            await arbiter.reload()


async def test_a_kill_ends_a_reload_that_still_looks_at_the_code(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path) as arbiter:
        (tmp_path / "versioned_app.py").write_text("import time\ntime.sleep(60)")
        reload = asyncio.create_task(arbiter.reload())
        me = psutil.Process()
        await until(lambda: len(me.children()) == 2)
        await arbiter.close()
        with pytest.raises(Draining):
            await asyncio.wait_for(reload, 10)
        assert me.children() == []


async def test_a_heartbeat_that_a_reload_brings_is_not_asked_of_older_workers(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, heartbeat_timeout=0) as arbiter:
        call = asyncio.create_task(arbiter.call(APP, "sleep", 1.5))
        await until(lambda: workers(arbiter, "busy"))
        await arbiter.reload(replace(arbiter.config, heartbeat_timeout_s=0.3))
        assert await call == "one"


async def test_a_worker_killed_during_a_reload_costs_no_queued_call(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=2, restart_delay=0) as arbiter:
        write("two", "import time; time.sleep(0.5)")
        reload = asyncio.create_task(arbiter.reload())
        os.kill(await until(lambda: booting_pid(arbiter)), signal.SIGKILL)
        with pytest.raises(BootFailed, match="SIGKILL"):
            await reload
        assert await arbiter.call(APP, "version") == "one"


async def test_reloads_leave_nothing_behind(tmp_path: Path, write: Write) -> None:
    async with versions(tmp_path, workers=1) as arbiter:
        me = psutil.Process()
        await arbiter.reload()
        await until(lambda: len(workers(arbiter)) == 1)
        descriptors = me.num_fds()
        for _ in range(8):
            await arbiter.reload()
        await until(lambda: len(workers(arbiter)) == 1)
        assert me.num_fds() <= descriptors


async def test_a_client_learns_from_a_reload_which_actions_may_be_sent_again_now(tmp_path: Path, write: Write) -> None:
    path, known = str(tmp_path / "s"), frozenset({(APP, "version")})
    async with versions(tmp_path, socket=path) as arbiter:
        client = DirtyClient(path, reconnect_s=20)
        assert await client.execute_async(APP, "version") == "one"
        assert await asyncio.to_thread(client.execute, APP, "version") == "one"
        tasks_peer, threads_peer = (await client.channel_async()).peer, client.channel().peer
        assert tasks_peer.idempotent == threads_peer.idempotent == frozenset()

        text = source("two").replace("def version", "@action(idempotent=True)\n    def version")
        (tmp_path / "versioned_app.py").write_text(text)
        await arbiter.reload()
        await until(lambda: tasks_peer.idempotent == known)
        assert await asyncio.to_thread(client.execute, APP, "version") == "two"
        assert threads_peer.idempotent == known
        await client.close_async()
        client.close()
