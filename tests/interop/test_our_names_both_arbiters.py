"""Our drop-in package against our arbiter and against gunicorn's: one behaviour, where the protocol allows it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gunicorn.dirty")
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.compat import gunicorn as dirty
from dirtybus.compat.gunicorn import DirtyClient, StashClient
from dirtybus.compat.gunicorn.client import DirtyAsyncStreamIterator, DirtyStreamIterator, get_dirty_socket_path
from dirtybus.compat.gunicorn.roads import Gd1Road, NativeRoad
from tests.interop.servers import NOTEBOOK, TOOLBOX, gunicorn_arbiter, our_arbiter

pytestmark = pytest.mark.interop


@pytest.fixture(params=["ours", "theirs"])
def path(request: pytest.FixtureRequest) -> str:
    path: str = request.getfixturevalue(request.param)
    return path


@pytest.fixture
def client(path: str) -> Iterator[DirtyClient]:
    with DirtyClient(path, timeout=20) as client:
        yield client


@pytest.fixture
def stash(path: str) -> Iterator[StashClient]:
    with StashClient(path, timeout=20) as stash:
        for table in stash.tables():
            if table.startswith("test"):
                stash.delete_table(table)
        yield stash


# --- which protocol -----------------------------------------------------------------------------------------------


def test_an_arbiter_of_ours_is_spoken_to_natively(ours: str) -> None:
    with DirtyClient(ours) as client:
        assert isinstance(client.road(), NativeRoad)
        assert client.execute(TOOLBOX, "give", {1: (2, {3})}) == {1: (2, {3})}


def test_an_arbiter_of_gunicorns_is_spoken_to_in_its_own_protocol(theirs: str) -> None:
    with DirtyClient(theirs) as client:
        assert isinstance(client.road(), Gd1Road)
        assert client.execute(TOOLBOX, "give", {1: (2,)}) == {"1": [2]}


def test_another_arbiter_at_the_same_path_is_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    client = DirtyClient(path, timeout=20)
    with gunicorn_arbiter(path):
        assert client.execute(TOOLBOX, "add", 1) == 1
        assert isinstance(client.road(), Gd1Road)
    with our_arbiter(path, workers=1):
        assert client.execute(TOOLBOX, "add", 2) == 2
        assert isinstance(client.road(), NativeRoad)
        client.close()


# --- calls --------------------------------------------------------------------------------------------------------


def test_a_call_returns_its_result(client: DirtyClient) -> None:
    assert client.execute(TOOLBOX, "echo", 1, "two", k=b"v") == {"args": [1, "two"], "kwargs": {"k": b"v"}}


def test_megabytes_go_in_and_out(client: DirtyClient) -> None:
    blob = bytes(range(256)) * 20_000
    assert client.execute(TOOLBOX, "give", blob) == blob


def test_an_error_of_the_app_arrives_with_its_traceback(client: DirtyClient) -> None:
    with pytest.raises(dirty.DirtyAppError) as caught:
        client.execute(TOOLBOX, "fail", "no such model")
    assert caught.value.message == "no such model"
    assert (caught.value.app_path, caught.value.action) == (TOOLBOX, "fail")
    assert "ValueError" in str(caught.value.traceback)


def test_an_app_that_is_not_served_has_no_workers(client: DirtyClient) -> None:
    with pytest.raises(dirty.DirtyNoWorkersAvailableError) as caught:
        client.execute("m:Missing", "run")
    assert caught.value.app_path == "m:Missing"
    with pytest.raises(dirty.DirtyNoWorkersAvailableError):
        list(client.stream("m:Missing", "run"))


def test_a_call_that_takes_too_long_does_not_answer_the_next_one(path: str) -> None:
    client = DirtyClient(path, timeout=0.3)
    with pytest.raises(dirty.DirtyTimeoutError) as caught:
        client.execute(TOOLBOX, "nap", 0.6, "late")
    assert caught.value.timeout == 0.3
    client.timeout = 20
    assert [client.execute(TOOLBOX, "give", i) for i in range(20)] == list(range(20))
    client.close()


def test_threads_share_a_client(client: DirtyClient) -> None:
    wrong: list[object] = []

    def work(base: int) -> None:
        wrong.extend(i for i in range(base, base + 25) if client.execute(TOOLBOX, "give", i) != i)

    threads = [threading.Thread(target=work, args=(base,)) for base in range(0, 200, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


# --- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["tokens", "tokens_async"])
def test_a_stream_arrives_chunk_by_chunk(client: DirtyClient, action: str) -> None:
    stream = client.stream(TOOLBOX, action, 50)
    assert isinstance(stream, DirtyStreamIterator)
    assert list(stream) == [f"token {i}" for i in range(50)]


def test_execute_gathers_a_stream_and_stream_yields_a_plain_result(client: DirtyClient) -> None:
    assert client.execute(TOOLBOX, "tokens", 2) == ["token 0", "token 1"]
    assert list(client.stream(TOOLBOX, "add", 1, b=1)) == [2]


def test_a_stream_that_breaks_gives_its_chunks_first(client: DirtyClient) -> None:
    chunks = client.stream(TOOLBOX, "tokens_then_fail", 2)
    assert [next(chunks), next(chunks)] == ["token 0", "token 1"]
    with pytest.raises(dirty.DirtyAppError, match="the stream broke"):
        next(chunks)


def test_calls_between_the_chunks_and_a_dropped_stream_mix_up_nothing(client: DirtyClient) -> None:
    chunks = client.stream(TOOLBOX, "tokens", 1000)
    for i in range(5):
        assert (next(chunks), client.execute(TOOLBOX, "give", i)) == (f"token {i}", i)
    chunks.close()
    assert list(chunks) == []
    assert client.execute(TOOLBOX, "give", "after") == "after"


def test_a_stream_over_its_limit_times_out(path: str) -> None:
    client = DirtyClient(path, timeout=0.4)
    with pytest.raises(dirty.DirtyTimeoutError):
        list(client.stream(TOOLBOX, "drip", 20, 0.1))
    client.close()


# --- tasks --------------------------------------------------------------------------------------------------------


async def test_tasks_share_a_client(path: str) -> None:
    async with DirtyClient(path, timeout=20) as client:
        answers = await asyncio.gather(*(client.execute_async(TOOLBOX, "give", i) for i in range(50)))
    assert answers == list(range(50))


async def test_a_cancelled_call_does_not_answer_the_next_one(path: str) -> None:
    async with DirtyClient(path, timeout=20) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.execute_async(TOOLBOX, "nap", 0.5, "secret"), 0.1)
        assert [await client.execute_async(TOOLBOX, "give", i) for i in range(10)] == list(range(10))


async def test_a_stream_arrives_in_a_task(path: str) -> None:
    async with DirtyClient(path, timeout=20) as client:
        stream = client.stream_async(TOOLBOX, "tokens_async", 3)
        assert isinstance(stream, DirtyAsyncStreamIterator)
        assert [chunk async for chunk in stream] == ["token 0", "token 1", "token 2"]
        left = client.stream_async(TOOLBOX, "tokens", 100)
        assert await anext(left) == "token 0"
        await left.aclose()
        with pytest.raises(dirty.DirtyAppError, match="the stream broke"):
            assert [chunk async for chunk in client.stream_async(TOOLBOX, "tokens_then_fail", 1)]


async def test_a_client_for_each_request_costs_no_descriptor(path: str) -> None:
    async def one_request(i: int) -> Any:
        client = await dirty.get_dirty_client_async(timeout=20)
        return await client.execute_async(TOOLBOX, "give", i)

    dirty.set_dirty_socket_path(path)
    try:
        assert await asyncio.create_task(one_request(0)) == 0
        before = len(os.listdir("/dev/fd"))
        assert [await asyncio.create_task(one_request(i)) for i in range(50)] == list(range(50))
        assert len(os.listdir("/dev/fd")) <= before + 1
    finally:
        async with DirtyClient(path) as last:
            road = await last.road_async()
        await road.close_async()
        dirty.set_dirty_socket_path(None)


# --- helpers of a process -----------------------------------------------------------------------------------------


def test_the_client_of_a_thread_is_made_once_and_follows_the_path(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIRTYBUS_SOCKET", raising=False)
    monkeypatch.setenv("GUNICORN_DIRTY_SOCKET", path)
    assert get_dirty_socket_path() == path
    client = dirty.get_dirty_client(timeout=20)
    assert dirty.get_dirty_client() is client
    assert client.execute(TOOLBOX, "add", 1, b=1) == 2
    dirty.stash.put("test-env", "k", 1)
    assert dirty.stash.get("test-env", "k") == 1
    dirty.close_dirty_client()
    dirty.close_dirty_client()
    assert dirty.get_dirty_client() is not client
    dirty.close_dirty_client()
    dirty.stash._client().close()


# --- stash --------------------------------------------------------------------------------------------------------


def test_a_missing_key_gives_the_default(stash: StashClient) -> None:
    stash.put("test", "none", None)
    assert stash.get("test", "none", 7) is None
    assert stash.get("test", "missing", 7) == 7
    assert stash.get("test-nowhere", "missing") is None


def test_every_function_of_the_stash_answers_alike(stash: StashClient) -> None:
    stash.put("test", "user:1", {"name": "Ada"})
    stash.put("test", "bot:1", [1, 2])
    assert stash.get("test", "user:1") == {"name": "Ada"}
    assert sorted(stash.keys("test")) == ["bot:1", "user:1"]
    assert stash.keys("test", pattern="user:*") == ["user:1"]
    assert (stash.exists("test"), stash.exists("test", "user:1"), stash.exists("test", "x")) == (True, True, False)
    assert (stash.delete("test", "user:1"), stash.delete("test", "user:1")) == (True, False)
    info = stash.info("test")
    assert (info["size"], info["table"]) == (1, "test")
    stash.clear("test")
    assert (stash.keys("test"), stash.length("test"), stash.length("test-nowhere")) == ([], 0, 0)
    stash.ensure("test-made")
    assert {"test", "test-made"} <= set(stash.tables())
    stash.delete_table("test-made")
    assert not stash.exists("test-made")


def test_a_table_that_is_not_there_is_named_by_the_error(stash: StashClient) -> None:
    with pytest.raises(dirty.StashTableNotFoundError) as caught:
        stash.info("test-nowhere")
    assert caught.value.table_name == "test-nowhere"


def test_a_table_is_like_a_dict(stash: StashClient) -> None:
    table = stash.table("test")
    table["a"] = 1
    table["b"] = None
    assert (table["a"], table["b"], table.get("z", 9), "a" in table, "z" in table, len(table)) == (
        1,
        None,
        9,
        True,
        False,
        2,
    )
    assert (sorted(table), dict(table.items()), sorted(map(str, table.values()))) == (
        ["a", "b"],
        {"a": 1, "b": None},
        ["1", "None"],
    )
    assert table.keys(pattern="a*") == ["a"]
    del table["a"]
    for missing in (lambda: table["a"], lambda: table.__delitem__("a")):
        with pytest.raises(KeyError) as caught:
            missing()
        assert isinstance(caught.value, dirty.StashKeyNotFoundError)
        assert (caught.value.table_name, caught.value.key) == ("test", "a")
    table.clear()
    assert len(table) == 0


def test_what_cannot_be_stored_is_a_stash_error(stash: StashClient) -> None:
    with pytest.raises(dirty.StashError):
        stash.put("test", "k", object())


def test_an_app_that_imports_these_names_shares_the_stash(client: DirtyClient, stash: StashClient) -> None:
    assert client.execute(NOTEBOOK, "login", 77, {"name": "Cy"}) == {"status": "ok"}
    assert stash.get("sessions", "user:77") == {"data": {"name": "Cy"}}
    assert client.execute(NOTEBOOK, "session", 77) == {"data": {"name": "Cy"}}


def test_an_arbiter_that_goes_away_is_a_connection_error(own: Arbiter) -> None:
    path = str(own.config.socket)
    client = DirtyClient(path, timeout=5)
    assert client.execute(TOOLBOX, "add", 1) == 1
    os.unlink(path)
    with pytest.raises(dirty.DirtyConnectionError):
        client.execute(TOOLBOX, "add", 1)
    client.close()
