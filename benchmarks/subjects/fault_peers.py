"""Who does the work while workers are killed. Each is called from threads and blocks until it has an outcome.

Workers that are spawned load this module again, so it loads nothing of a contestant before that one is opened.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

from benchmarks.subjects.faulty import work
from benchmarks.subjects.owning import OwnerProgram

__all__ = ["PEERS", "Peer"]

_OURS = "benchmarks.subjects.dirtybus_app:Bench"
#: the same for both ways in: a worker that was killed is replaced at once, as gunicorn and pebble do it
_SETTINGS = {"restart_delay": "0", "max_restarts": "0"}


class Peer(Protocol):
    def open(self, place: Path, workers: int) -> None:
        """Start all there is."""

    def call(self, token: str, within_s: float) -> str:
        """Do the work and return its answer; raises TimeoutError when there is no outcome within the limit."""

    def close(self) -> None:
        """End what was started, as far as it lets us."""


class DirtybusInside:
    """The process that calls owns the workers."""

    def open(self, place: Path, workers: int) -> None:
        from loguru import logger

        logger.remove()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start(workers))

    async def _start(self, workers: int) -> None:
        from dirtybus import Arbiter, DirtyConfig

        self._arbiter = Arbiter(DirtyConfig.of(_OURS, workers=workers, **_SETTINGS))
        await self._arbiter.start()
        self._arbiter.admit()

    def call(self, token: str, within_s: float) -> str:
        return str(self._run(self._arbiter.call(_OURS, "work", token, timeout_s=within_s)))

    def close(self) -> None:
        self._run(self._arbiter.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class DirtybusOutside:
    """Another process owns the workers; its socket is called."""

    def open(self, place: Path, workers: int) -> None:
        from dirtybus.client import DirtyClient

        path = str(place / "dirtybus.sock")
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        self._owner = OwnerProgram("benchmarks.subjects.dirtybus_owner", path, workers, *settings)
        self._client = DirtyClient(path)

    def call(self, token: str, within_s: float) -> str:
        return str(self._client.request(_OURS, "work", (token,), timeout_s=within_s))

    def close(self) -> None:
        self._client.close()
        self._owner.close()


class Gunicorn:
    """gunicorn's dirty arbiter; a client for each thread, and a new one after an error."""

    _APP = "benchmarks.subjects.gunicorn_app:Bench"

    def open(self, place: Path, workers: int) -> None:
        self._path = str(place / "gunicorn.sock")
        self._owner = OwnerProgram("benchmarks.subjects.gunicorn_owner", self._path, workers)
        self._dirty = importlib.import_module("gunicorn.dirty")
        self._errors = importlib.import_module("gunicorn.dirty.errors")
        self._mine = threading.local()

    def call(self, token: str, within_s: float) -> str:
        client = getattr(self._mine, "client", None)
        if client is None:
            client = self._mine.client = self._dirty.DirtyClient(self._path, timeout=within_s)
        try:
            return str(client.execute(self._APP, "work", token))
        except BaseException as exc:
            self._mine.client = None
            client.close()
            if isinstance(exc, self._errors.DirtyTimeoutError):
                raise TimeoutError from exc
            raise

    def close(self) -> None:
        self._owner.close()


class StandardPool:
    """``ProcessPoolExecutor``, made once."""

    def open(self, place: Path, workers: int) -> None:
        self._workers = workers
        self._pool = self._make()

    def _make(self) -> Executor:
        # threads call it: a fork would copy their locks
        return ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn"))

    def call(self, token: str, within_s: float) -> str:
        return self._pool.submit(work, token).result(within_s)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class StandardPoolRenewed(StandardPool):
    """``ProcessPoolExecutor``, made anew by whoever finds it broken first, as careful users do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def call(self, token: str, within_s: float) -> str:
        pool = self._pool
        try:
            return pool.submit(work, token).result(within_s)
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    pool.shutdown(wait=False, cancel_futures=True)
                    self._pool = self._make()
            raise


class Loky:
    """loky's reusable executor, asked for before each call: it is a new one when the last is broken."""

    def open(self, place: Path, workers: int) -> None:
        self._workers = workers
        self._loky = importlib.import_module("loky")
        self._lock = threading.Lock()

    def call(self, token: str, within_s: float) -> str:
        with self._lock:
            future = self._loky.get_reusable_executor(max_workers=self._workers).submit(work, token)
        return str(future.result(within_s))

    def close(self) -> None:
        self._loky.get_reusable_executor(max_workers=self._workers).shutdown(wait=False, kill_workers=True)


class Pebble:
    """pebble's pool, which replaces workers."""

    def open(self, place: Path, workers: int) -> None:
        pebble = importlib.import_module("pebble")
        self._pool = pebble.ProcessPool(workers, context=multiprocessing.get_context("spawn"))

    def call(self, token: str, within_s: float) -> str:
        return str(self._pool.schedule(work, args=[token]).result(within_s))

    def close(self) -> None:
        self._pool.stop()


#: by name: what it is, and the module that it needs
PEERS: dict[str, tuple[type[Peer], str]] = {
    "dirtybus in process": (DirtybusInside, "dirtybus"),
    "dirtybus attached": (DirtybusOutside, "dirtybus"),
    "gunicorn.dirty": (Gunicorn, "gunicorn.dirty"),
    "ProcessPoolExecutor": (StandardPool, "concurrent.futures"),
    "ProcessPoolExecutor renewed": (StandardPoolRenewed, "concurrent.futures"),
    "loky": (Loky, "loky"),
    "pebble": (Pebble, "pebble"),
}
