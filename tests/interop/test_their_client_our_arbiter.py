"""gunicorn's own client and stash, unmodified, against our arbiter."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from tests.interop.servers import NOTEBOOK, ROOT, TOOLBOX

pytest.importorskip("gunicorn.dirty")
from gunicorn.dirty import stash
from gunicorn.dirty.client import DirtyClient
from gunicorn.dirty.errors import (
    DirtyAppError,
    DirtyError,
    DirtyNoWorkersAvailableError,
    DirtyProtocolError,
    DirtyTimeoutError,
    DirtyWorkerError,
)
from gunicorn.dirty.protocol import DirtyProtocol, make_manage_message, make_request

pytestmark = pytest.mark.interop


@pytest.fixture
def client(ours: str) -> Iterator[Any]:
    with DirtyClient(ours, timeout=20) as client:
        yield client


@pytest.fixture
def their_stash(ours: str) -> Iterator[Any]:
    stash.set_stash_socket_path(ours)
    yield stash
    stash._get_client().close()
    stash._thread_local.stash_client = None
    stash.set_stash_socket_path(None)


def until(is_true: Callable[[], bool]) -> None:
    gives_up_at = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < gives_up_at, "it did not become true within 20 s"
        time.sleep(0.005)


# --- calls --------------------------------------------------------------------------------------------------------


def test_a_call_returns_what_gunicorn_would_return(client: Any) -> None:
    value = [None, True, -5, 2.5, b"\x00\xff", "é", {"nested": [1, {}]}]
    assert client.execute(TOOLBOX, "echo", value, (1, 2), k=b"v") == {"args": [value, [1, 2]], "kwargs": {"k": b"v"}}


def test_one_client_makes_many_calls_one_after_the_other(client: Any) -> None:
    assert [client.execute(TOOLBOX, "add", i, b=1) for i in range(200)] == list(range(1, 201))


def test_megabytes_go_in_and_out(client: Any) -> None:
    blob = bytes(range(256)) * 20_000
    assert client.execute(TOOLBOX, "give", blob) == blob


def test_an_error_of_the_app_arrives_with_its_traceback(client: Any) -> None:
    with pytest.raises(DirtyAppError) as caught:
        client.execute(TOOLBOX, "fail", "no such model")
    assert caught.value.message == "no such model"
    assert (caught.value.app_path, caught.value.action) == (TOOLBOX, "fail")
    assert "ValueError" in caught.value.traceback


def test_private_and_missing_actions_are_app_errors(client: Any) -> None:
    for action in ("_secret", "__init__", "missing"):
        with pytest.raises(DirtyAppError):
            client.execute(TOOLBOX, action)


def test_an_app_that_is_not_served_has_no_workers(client: Any) -> None:
    with pytest.raises(DirtyNoWorkersAvailableError) as caught:
        client.execute("m:Missing", "run")
    assert caught.value.app_path == "m:Missing"


def test_a_result_that_cannot_be_sent_is_an_error_and_the_client_goes_on(client: Any) -> None:
    with pytest.raises(DirtyProtocolError, match=r"result\['members'\]\[0\].*set"):
        client.execute(TOOLBOX, "give_set")
    assert client.execute(TOOLBOX, "add", 1) == 1


def test_a_client_that_gives_up_is_no_trouble_to_the_next_call(own: Arbiter) -> None:
    client = DirtyClient(str(own.config.socket), timeout=0.3)
    with pytest.raises(DirtyTimeoutError) as caught:
        client.execute(TOOLBOX, "nap", 0.6, "late")
    assert caught.value.timeout == 0.3
    client.timeout = 20
    assert client.execute(TOOLBOX, "give", "on time") == "on time"
    client.close()


def test_a_worker_that_dies_fails_its_call_and_is_replaced(own: Arbiter) -> None:
    with DirtyClient(str(own.config.socket), timeout=20) as client:
        with pytest.raises(DirtyWorkerError):
            client.execute(TOOLBOX, "die")
        assert client.execute(TOOLBOX, "add", 2, b=2) == 4


# --- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["tokens", "tokens_async"])
def test_a_stream_arrives_chunk_by_chunk(client: Any, action: str) -> None:
    assert list(client.stream(TOOLBOX, action, 100)) == [f"token {i}" for i in range(100)]


def test_a_stream_that_breaks_gives_its_chunks_first(client: Any) -> None:
    chunks = client.stream(TOOLBOX, "tokens_then_fail", 2)
    assert [next(chunks), next(chunks)] == ["token 0", "token 1"]
    with pytest.raises(DirtyAppError, match="the stream broke"):
        next(chunks)


def test_a_client_that_leaves_mid_stream_closes_the_generator(ours: str, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with DirtyClient(ours, timeout=20) as client:
        assert next(client.stream(TOOLBOX, "track_stream", str(note))) == 0
    until(note.exists)


def test_a_stalled_reader_holds_up_nobody_else(ours: str) -> None:
    stalled = DirtyClient(ours, timeout=20)
    chunks = stalled.stream(TOOLBOX, "spam", 400, 200_000)
    assert len(next(chunks)) == 200_000
    with DirtyClient(ours, timeout=20) as client:
        assert [client.execute(TOOLBOX, "add", i) for i in range(20)] == list(range(20))
    assert sum(1 for _ in chunks) == 399
    stalled.close()


# --- tasks and threads --------------------------------------------------------------------------------------------


async def test_the_async_client_calls_and_streams(ours: str) -> None:
    async with DirtyClient(ours, timeout=20) as client:
        assert await client.execute_async(TOOLBOX, "add", 1, b=2) == 3
        assert [chunk async for chunk in client.stream_async(TOOLBOX, "tokens_async", 3)][-1] == "token 2"
        with pytest.raises(DirtyAppError):
            await client.execute_async(TOOLBOX, "fail", "no")


async def test_an_async_client_that_times_out_hears_nothing_of_it_later(ours: str) -> None:
    client = DirtyClient(ours, timeout=0.3)
    with pytest.raises(DirtyTimeoutError):
        await client.execute_async(TOOLBOX, "nap", 0.6, "late")
    client.timeout = 20
    assert await client.execute_async(TOOLBOX, "give", "on time") == "on time"
    await client.close_async()


async def test_many_async_clients_are_served_side_by_side(ours: str) -> None:
    async def one(i: int) -> Any:
        async with DirtyClient(ours, timeout=20) as client:
            return await client.execute_async(TOOLBOX, "give", i)

    assert await asyncio.gather(*(one(i) for i in range(50))) == list(range(50))


def test_many_threads_each_get_their_own_answers(ours: str) -> None:
    wrong: list[object] = []

    def work(base: int) -> None:
        with DirtyClient(ours, timeout=20) as client:
            wrong.extend(i for i in range(base, base + 50) if client.execute(TOOLBOX, "give", i) != i)

    threads = [threading.Thread(target=work, args=(base,)) for base in range(0, 400, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)


def test_several_requests_in_flight_on_one_connection_are_answered_by_their_ids(ours: str) -> None:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.settimeout(20)
        sock.connect(ours)
        DirtyProtocol.write_message(sock, make_request(1, TOOLBOX, "nap", (0.3, "slow")))
        for client_id in (2, 3):
            DirtyProtocol.write_message(sock, make_request(client_id, TOOLBOX, "give", (client_id,)))
        answers = [DirtyProtocol.read_message(sock) for _ in range(3)]
    assert {answer["id"]: answer["result"] for answer in answers} == {1: "slow", 2: 2, 3: 3}
    assert answers[-1]["id"] == 1


# --- stash: the patterns of gunicorn's documentation --------------------------------------------------------------


def test_a_missing_key_gives_the_default(their_stash: Any) -> None:
    assert their_stash.get("nowhere", "k") is None
    assert their_stash.get("nowhere", "k", 7) == 7
    assert their_stash.get("nowhere", "k", default="fallback") == "fallback"


def test_sessions_are_stored_found_and_listed(their_stash: Any) -> None:
    their_stash.put("web-sessions", "user:123", {"name": "Alice", "role": "admin"})
    their_stash.put("web-sessions", "bot:9", None)
    assert their_stash.get("web-sessions", "user:123") == {"name": "Alice", "role": "admin"}
    assert their_stash.exists("web-sessions", "user:123")
    assert their_stash.keys("web-sessions", pattern="user:*") == ["user:123"]
    assert their_stash.delete("web-sessions", "user:123") is True
    assert their_stash.delete("web-sessions", "user:123") is False
    assert not their_stash.exists("web-sessions", "user:123")


def test_a_table_is_like_a_dict(their_stash: Any) -> None:
    table = their_stash.table("dict-like")
    table["a"] = {"name": "Alice"}
    table["b"] = None
    assert (table["a"], table["b"], "a" in table, "z" in table, len(table)) == ({"name": "Alice"}, None, True, False, 2)
    assert dict(table.items()) == {"a": {"name": "Alice"}, "b": None}
    assert sorted(table) == ["a", "b"]
    del table["a"]
    with pytest.raises(KeyError):
        table["a"]
    with pytest.raises(KeyError):
        del table["a"]


def test_tables_are_made_counted_cleared_and_removed(their_stash: Any) -> None:
    their_stash.ensure("managed")
    assert their_stash.info("managed")["size"] == 0
    their_stash.put("managed", "k", 1)
    assert their_stash.info("managed")["size"] == 1
    their_stash.clear("managed")
    assert their_stash.keys("managed") == []
    assert "managed" in their_stash.tables()
    their_stash.delete_table("managed")
    with pytest.raises(stash.StashTableNotFoundError) as caught:
        their_stash.info("managed")
    assert caught.value.table_name == "managed"


def test_the_counter_the_cache_and_the_flag_of_the_documentation_work(their_stash: Any, client: Any) -> None:
    def increment(name: str) -> Any:
        current = their_stash.get("doc-counters", name, 0)
        their_stash.put("doc-counters", name, current + 1)
        return current + 1

    assert [increment("visits"), increment("visits")] == [1, 2]
    assert client.execute(NOTEBOOK, "is_on", "new_feature") is False
    their_stash.put("flags", "new_feature", True)
    assert client.execute(NOTEBOOK, "is_on", "new_feature") is True
    assert client.execute(NOTEBOOK, "expensive", "k")["cached"] is False
    assert client.execute(NOTEBOOK, "expensive", "k")["cached"] is True
    assert their_stash.get("cache", "k")["key"] == "k"


def test_what_an_app_stores_is_seen_outside_and_by_other_workers(their_stash: Any, client: Any) -> None:
    before = their_stash.get("counters", "requests", 0)
    assert client.execute(NOTEBOOK, "login", 5, {"name": "Bo"}) == {"status": "ok"}
    assert {str(client.execute(NOTEBOOK, "session", 5)) for _ in range(10)} == {"{'data': {'name': 'Bo'}}"}
    assert their_stash.get("counters", "requests") == before + 1
    assert client.execute(NOTEBOOK, "session", 404) is None


# --- status and manage --------------------------------------------------------------------------------------------


def ask(path: str, message: dict[str, Any]) -> Any:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.settimeout(20)
        sock.connect(path)
        DirtyProtocol.write_message(sock, message)
        return DirtyProtocol.read_message(sock)["result"]


def test_the_status_lists_the_workers(ours: str, client: Any) -> None:
    status = ask(ours, {"type": "status", "id": 1})
    assert status["apps"] == [TOOLBOX, NOTEBOOK]
    assert status["worker_count"] == len(status["workers"]) == 2
    assert client.execute(TOOLBOX, "pid") in [worker["pid"] for worker in status["workers"]]


def test_workers_are_added_and_removed(own: Arbiter) -> None:
    path = str(own.config.socket)
    assert ask(path, make_manage_message(1, 1, 2))["spawned"] == 2
    until(lambda: [worker["booted"] for worker in ask(path, {"type": "status", "id": 1})["workers"]] == [True] * 3)
    assert ask(path, make_manage_message(1, 2, 9))["target_workers"] == 1
    until(lambda: bool(ask(path, {"type": "status", "id": 1})["worker_count"] == 1))


# --- the whole of a process ---------------------------------------------------------------------------------------


def test_an_unmodified_program_needs_only_the_variable(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "from gunicorn.dirty import get_dirty_client, stash\n"
        f"print(get_dirty_client().execute({TOOLBOX!r}, 'add', 40, b=2), stash.get('nothing', 'here', 'default'))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        env={"GUNICORN_DIRTY_SOCKET": ours},
        check=True,
    )
    assert shown.stdout == "42 default\n"


def test_a_drained_arbiter_refuses_with_an_error_and_not_with_silence(own: Arbiter) -> None:
    with DirtyClient(str(own.config.socket), timeout=20) as client:
        assert client.execute(TOOLBOX, "add", 1) == 1
        own.close_admission()
        with pytest.raises(DirtyError, match="shutting down"):
            client.execute(TOOLBOX, "add", 1)
