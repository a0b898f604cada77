from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.errors import (
    ActionNotFound,
    ConfigError,
    DirtyAppError,
    DirtyConnectionError,
    DirtyError,
    DirtyTimeoutError,
    Draining,
    EncodeError,
    StashKeyNotFoundError,
)
from tests.arbiter.serving import BASIC, serving, until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a.sock")


@pytest.fixture
async def arbiter(path: str) -> AsyncIterator[Arbiter]:
    async with serving(socket=path, workers=2, cancel_grace="1s") as one:
        yield one


async def in_thread(function: object, *args: object) -> object:
    return await asyncio.to_thread(function, *args)  # type: ignore[arg-type]


async def test_threads_and_tasks_get_their_values(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    assert await client.execute_async(BASIC, "echo", (1, {2}), x=3) == ((1, {2}), {"x": 3})
    assert await in_thread(client.execute, BASIC, "echo", {"a": None}) == {"a": None}
    assert await in_thread(client.execute, BASIC, "numbers", 3) == [0, 1, 2]
    await client.close_async()
    client.close()


async def test_streams_work_both_ways(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    assert [n async for n in client.stream_async(BASIC, "anumbers", 100)] == list(range(100))
    assert await in_thread(lambda: list(client.stream(BASIC, "numbers", 100))) == list(range(100))
    assert await in_thread(lambda: list(client.stream(BASIC, "echo", "one"))) == ["one"]
    await client.close_async()
    client.close()


async def test_errors_arrive_typed(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)

    def calls() -> None:
        with pytest.raises(DirtyAppError) as caught:
            client.execute(BASIC, "boom")
        assert (caught.value.error_type, caught.value.message) == ("ValueError", "bad")
        with pytest.raises(ActionNotFound):
            client.execute(BASIC, "nope")
        with pytest.raises(EncodeError):
            client.execute(BASIC, "echo", object())
        with pytest.raises(RuntimeError, match="never"):
            raise RuntimeError("never mind: the connection is not disturbed")

    await in_thread(calls)
    seen = []
    with pytest.raises(DirtyAppError, match="failed at 2"):
        async for n in client.stream_async(BASIC, "numbers", 9, 2):
            seen.append(n)
    assert seen == [0, 1]
    await client.close_async()
    client.close()


async def test_many_threads_share_one_connection_and_get_their_own_answers(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)

    def caller(number: int) -> int:
        return sum(client.execute(BASIC, "echo", [number, turn]) != [number, turn] for turn in range(50))

    with ThreadPoolExecutor(16) as pool:
        loop = asyncio.get_running_loop()
        wrong = await asyncio.gather(*(loop.run_in_executor(pool, caller, n) for n in range(16)))
    assert sum(wrong) == 0
    client.close()


async def test_gather_works_on_one_client(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    values = await asyncio.gather(*(client.execute_async(BASIC, "echo", n) for n in range(200)))
    assert values == list(range(200))
    await client.close_async()


async def cross_talk(client: DirtyClient, tasks: int, calls: int) -> int:
    """Return how many answers came to the wrong call, with cancels and timeouts thrown in at random."""

    async def caller(number: int) -> int:
        dice = random.Random(number)
        wrong = 0
        for turn in range(calls):
            sent = [number, turn]
            roll = dice.random()
            try:
                if roll < 0.05:
                    async with asyncio.timeout(dice.random() * 0.01):
                        await client.execute_async(BASIC, "asleep", 0.005, sent)
                elif roll < 0.08:
                    wrong += await client.request_async(BASIC, "asleep", (0.002, sent), timeout_s=0.004) != sent
                else:
                    wrong += await client.execute_async(BASIC, "echo", sent) != sent
            except TimeoutError:
                continue
        return wrong

    return sum(await asyncio.gather(*(caller(n) for n in range(tasks))))


async def test_no_answer_reaches_the_wrong_call(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    assert await cross_talk(client, 40, 50) == 0
    assert await client.execute_async(BASIC, "echo", "after") == "after"
    await client.close_async()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_no_answer_of_two_hundred_thousand_reaches_the_wrong_call(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    assert await cross_talk(client, 200, 1000) == 0
    await client.close_async()


@pytest.mark.parametrize("action", ["until_cancelled", "until_cancelled_async"])
async def test_a_task_that_is_cancelled_ends_the_work(arbiter: Arbiter, path: str, tmp_path: Path, action: str) -> None:
    client = DirtyClient(path)
    mark = tmp_path / "ended"
    call = asyncio.create_task(client.execute_async(BASIC, action, str(mark)))
    await until(Path(f"{mark}.began").exists)
    call.cancel()
    await asyncio.wait([call])
    await until(mark.exists)
    assert await client.execute_async(BASIC, "echo", "next") == "next"
    await client.close_async()


async def test_a_client_that_disconnects_ends_its_work(arbiter: Arbiter, path: str, tmp_path: Path) -> None:
    client = DirtyClient(path)
    mark = tmp_path / "ended"
    call = asyncio.create_task(client.execute_async(BASIC, "until_cancelled", str(mark)))
    await until(Path(f"{mark}.began").exists)
    await client.close_async()
    with pytest.raises(DirtyConnectionError):
        await call
    await until(mark.exists)


async def test_a_timeout_ends_the_work_and_says_whose_limit_it_was(arbiter: Arbiter, path: str, tmp_path: Path) -> None:
    client = DirtyClient(path, timeout=0.2)
    mark = tmp_path / "ended"

    def call() -> None:
        with pytest.raises(DirtyTimeoutError) as caught:
            client.execute(BASIC, "until_cancelled", str(mark))
        assert (caught.value.whose, caught.value.phase) == ("the caller's timeout", "running")
        assert client.execute(BASIC, "echo", "next") == "next"

    await in_thread(call)
    await until(mark.exists)
    client.close()


@pytest.mark.parametrize("action", ["endless", "aendless"])
async def test_an_abandoned_stream_ends_the_work_and_disturbs_nobody(
    arbiter: Arbiter, path: str, tmp_path: Path, action: str
) -> None:
    client = DirtyClient(path)
    mark, mark_async = tmp_path / "ended", tmp_path / "ended-async"

    def read_some() -> None:
        for n in client.stream(BASIC, action, str(mark)):
            if n == 5:
                break
        assert client.execute(BASIC, "echo", "next") == "next"

    await in_thread(read_some)
    async for n in client.stream_async(BASIC, action, str(mark_async)):
        if n == 5:
            break
    await until(lambda: mark.exists() and mark_async.exists())
    assert await client.execute_async(BASIC, "echo", "next") == "next"
    client.close()
    await client.close_async()


async def test_the_stash_is_reached_from_outside(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)

    def sync() -> None:
        client.stash.put("t", ("key", 1), {"v": (1, 2)})
        assert client.stash.get("t", ("key", 1)) == {"v": (1, 2)}
        assert client.stash.get("t", "missing", "default") == "default"
        with pytest.raises(StashKeyNotFoundError):
            client.stash.table("t")["missing"]

    await in_thread(sync)
    assert await client.stash_async.get("t", ("key", 1)) == {"v": (1, 2)}
    assert await client.execute_async(BASIC, "put", "from app", (1,)) == (1,)
    assert await client.stash_async.get("basic", "from app") == (1,)
    client.close()
    await client.close_async()


async def test_status_and_scale(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    status = await asyncio.to_thread(client.status)
    assert (status["state"], status["target"], len(status["workers"])) == ("open", 2, 2)
    assert (await asyncio.to_thread(client.scale, 3))["workers"] == 3
    with pytest.raises(DirtyError, match="whole number"):
        await asyncio.to_thread(client.scale, -1)
    client.close()


async def test_an_action_may_call_its_own_pool(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    app = "tests.apps.nested:Nested"
    async with serving(app, socket=path + "2", workers=2):
        nested = DirtyClient(path + "2")
        assert await asyncio.to_thread(nested.execute, app, "outer", 3) == "inner 3"
        nested.close()
    client.close()


async def test_a_client_reconnects_after_the_arbiter_was_restarted(path: str) -> None:
    client = DirtyClient(path)
    for _ in range(2):
        async with serving(socket=path):
            assert await client.execute_async(BASIC, "echo", 1) == 1
            assert await in_thread(client.execute, BASIC, "echo", 2) == 2
    with pytest.raises(DirtyConnectionError):
        await client.execute_async(BASIC, "echo", 1)
    with pytest.raises(DirtyConnectionError, match="dirtybus run"):
        await client.execute_async(BASIC, "echo", 1)
    with pytest.raises(DirtyConnectionError):
        await in_thread(client.execute, BASIC, "echo", 2)


async def test_a_call_under_way_when_the_arbiter_dies_is_told(path: str) -> None:
    client = DirtyClient(path)
    async with serving(socket=path):
        call = asyncio.create_task(client.execute_async(BASIC, "asleep", 30))
        blocked = asyncio.create_task(asyncio.to_thread(client.execute, BASIC, "asleep", 30))
        await asyncio.sleep(0)
        await until(lambda: client._sync is not None)
    for pending in (call, blocked):
        with pytest.raises((DirtyConnectionError, Draining)):
            await pending
    client.close()
    await client.close_async()


async def test_clients_that_come_before_the_workers_are_ready_wait(path: str) -> None:
    from dirtybus.config import DirtyConfig

    arbiter = Arbiter(DirtyConfig.of(BASIC, socket=path))
    await arbiter.listen()
    client = DirtyClient(path)
    early = asyncio.create_task(client.execute_async(BASIC, "echo", "early"))
    await arbiter.start()
    assert not early.done()
    arbiter.admit()
    assert await early == "early"
    await client.close_async()
    await arbiter.close()


async def test_draining_is_told_to_callers(arbiter: Arbiter, path: str) -> None:
    client = DirtyClient(path)
    assert await client.execute_async(BASIC, "echo", 1) == 1
    arbiter.close_admission()
    with pytest.raises(Draining):
        await client.execute_async(BASIC, "echo", 1)
    await client.close_async()


async def test_the_socket_is_private_and_a_second_owner_is_refused(arbiter: Arbiter, path: str) -> None:
    import os
    import stat

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    from dirtybus.config import DirtyConfig

    second = Arbiter(DirtyConfig.of(BASIC, socket=path))
    with pytest.raises(ConfigError, match="another arbiter"):
        await second.listen()
    await second.close()
    assert os.path.exists(path), "the loser must not remove the winner's socket"


async def test_a_stalled_reader_of_answers_does_not_stall_others(arbiter: Arbiter, path: str) -> None:
    from dirtybus.protocol.arguments import encode_arguments
    from dirtybus.protocol.connection import Connection, Side
    from dirtybus.protocol.heads import Call
    from dirtybus.protocol.messages import Message
    from dirtybus.transport.listener import connect

    sock = connect(path)
    connection = Connection(Side.CALLER, 2**32 - 1)
    for number in range(1, 9):  # answers of 8 MiB that nobody reads
        body = encode_arguments([1 << 20], None)
        for part in connection.send(Message(Call(app=BASIC, action="big"), number, body)):
            sock.sendall(part)
    client = DirtyClient(path)
    began_at = time.monotonic()
    for number in range(50):
        assert await client.execute_async(BASIC, "echo", number) == number
    assert time.monotonic() - began_at < 20
    sock.close()
    await client.close_async()


def test_without_a_path_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from dirtybus.client import get_dirty_client

    monkeypatch.delenv("DIRTYBUS_SOCKET", raising=False)
    monkeypatch.delenv("GUNICORN_DIRTY_SOCKET", raising=False)
    with pytest.raises(DirtyError, match="DIRTYBUS_SOCKET"):
        get_dirty_client()


async def test_the_processes_client_is_one_for_all_threads(
    arbiter: Arbiter, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dirtybus import stash
    from dirtybus.client import close_dirty_client, close_dirty_client_async, get_dirty_client, get_dirty_client_async

    monkeypatch.setenv("DIRTYBUS_SOCKET", path)
    client = await get_dirty_client_async()
    assert client is await asyncio.to_thread(get_dirty_client)
    assert await client.execute_async(BASIC, "echo", 1) == 1
    await asyncio.to_thread(stash.put, "t", "k", 1)
    assert await stash.aio.get("t", "k") == 1
    await close_dirty_client_async()
    close_dirty_client()
    assert threading.active_count() < 20
