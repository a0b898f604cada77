"""A producer goes on while its owner is told to stop, or is killed, and another one takes its place."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyConnectionError, DirtyError
from tests.arbiter.serving import until

ROOT = Path(__file__).parents[2]
APP = "tests.apps.recorder:Recorder"
MESSAGES = 200
AT_ONCE = 8
WITHIN_S = 40.0


class Stage:
    """An owner at one socket, again and again, and what its workers wrote down."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "a.sock")
        self._record = directory / "record"
        self.owner: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.owner = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dirtybus", "run", APP, "--workers", "4", "--socket", self.path),
            env={**os.environ, "RECORD": str(self._record)},
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
        )

    async def end(self, number: signal.Signals) -> int:
        """Send the owner a signal, wait for its end, and return its exit code."""
        assert self.owner is not None
        os.kill(self.owner.pid, number)
        async with asyncio.timeout(WITHIN_S):
            return await self.owner.wait()

    def written(self, what: str) -> Counter[int]:
        """How often each message was ``begun`` or ``done``."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return Counter(int(line.split()[1]) for line in lines if line.startswith(what))


@asynccontextmanager
async def staging(directory: Path) -> AsyncIterator[Stage]:
    stage = Stage(directory)
    try:
        await stage.start()
        yield stage
    finally:
        if stage.owner is not None and stage.owner.returncode is None:
            await stage.end(signal.SIGKILL)


class Producer:
    """Sends each message once, a few at a time, and keeps what it was told of each."""

    def __init__(self, path: str, action: str, *, reconnect_s: float, in_threads: bool) -> None:
        self.client = DirtyClient(path, reconnect_s=reconnect_s)
        self.told: dict[int, str] = {}
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._action = action
        self._send: Callable[[int], Awaitable[int]] = self._send_in_thread if in_threads else self._send_in_task

    async def run(self) -> None:
        left = iter(range(MESSAGES))

        async def send_some() -> None:
            for number in left:
                self.told[number] = await self._outcome(number)

        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(send_some())
        await self.client.close_async()
        self.client.close()
        self._threads.shutdown()

    def of(self, outcome: str) -> set[int]:
        return {number for number, told in self.told.items() if told == outcome}

    async def _outcome(self, number: int) -> str:
        try:
            assert await self._send(number) == number
        except DirtyConnectionError as exc:
            return "unknown" if exc.started is None else "refused"
        except DirtyError:
            return "refused"
        return "processed"

    async def _send_in_task(self, number: int) -> int:
        answer: int = await self.client.execute_async(APP, self._action, number)
        return answer

    async def _send_in_thread(self, number: int) -> int:
        loop = asyncio.get_running_loop()
        answer: int = await loop.run_in_executor(self._threads, self.client.execute, APP, self._action, number)
        return answer


async def produce_through(
    stage: Stage, number: signal.Signals, action: str, *, reconnect_s: float = 30.0, in_threads: bool = False
) -> Producer:
    """Send all messages; about half way, the owner gets a signal, and another is started at its end."""
    first = DirtyClient(stage.path, reconnect_s=30.0)
    await first.execute_async(APP, "once", -1)  # there is an owner, so that also one who does not wait may begin
    await first.close_async()
    producer = Producer(stage.path, action, reconnect_s=reconnect_s, in_threads=in_threads)
    producing = asyncio.create_task(producer.run())
    await until(lambda: len(producer.told) >= MESSAGES // 2, within_s=WITHIN_S)
    code = await stage.end(number)
    assert code == (0 if number is signal.SIGTERM else -number)
    await stage.start()
    await producing
    return producer


EVERY = set(range(MESSAGES))
BOTH = pytest.mark.parametrize("in_threads", [False, True], ids=["tasks", "threads"])


@BOTH
async def test_an_owner_that_is_told_to_stop_costs_no_message_and_repeats_none(
    tmp_path: Path, in_threads: bool
) -> None:
    async with staging(tmp_path) as stage:
        producer = await produce_through(stage, signal.SIGTERM, "once", in_threads=in_threads)
    assert producer.of("processed") == EVERY
    begun, done = stage.written("begun"), stage.written("done")
    assert begun == done == Counter(dict.fromkeys((-1, *EVERY), 1))
    assert producer.client.unknown == 0


@BOTH
async def test_an_owner_that_is_killed_costs_only_what_is_told(tmp_path: Path, in_threads: bool) -> None:
    async with staging(tmp_path) as stage:
        producer = await produce_through(stage, signal.SIGKILL, "once", in_threads=in_threads)
    begun, done = stage.written("begun"), stage.written("done")
    processed, unknown = producer.of("processed"), producer.of("unknown")
    assert processed | unknown == EVERY
    assert 0 < len(unknown) <= AT_ONCE
    assert {(begun[number], done[number]) for number in processed} == {(1, 1)}, "whole, and once"
    assert {begun[number] for number in unknown} <= {0, 1}, "at most once"
    assert producer.client.unknown == len(unknown)


@BOTH
async def test_an_owner_that_is_killed_costs_nothing_that_may_run_twice(tmp_path: Path, in_threads: bool) -> None:
    async with staging(tmp_path) as stage:
        producer = await produce_through(stage, signal.SIGKILL, "again", in_threads=in_threads)
    done = stage.written("done")
    assert producer.of("processed") == EVERY
    assert done.keys() >= EVERY
    assert sum(done[number] - 1 for number in EVERY) <= AT_ONCE, "only what was under way is repeated"
    assert producer.client.unknown == 0
    assert producer.client.resent > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_without_sending_again_messages_are_lost(tmp_path: Path, number: signal.Signals) -> None:
    async with staging(tmp_path) as stage:
        producer = await produce_through(stage, number, "again", reconnect_s=0.0)
    assert len(EVERY - stage.written("done").keys()) > 0, "or the tests above see nothing"
    assert producer.of("processed") != EVERY
