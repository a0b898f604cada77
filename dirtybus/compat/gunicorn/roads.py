"""The way to an arbiter: our own protocol if it is one of ours, gunicorn's if it is not. One way a path and process.

Whose it is, a GD v1 status question tells: both answer it, and only ours names its server. It is asked once for each
socket that appears at a path, as a restarted arbiter binds a new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from dirtybus.compat.gunicorn.gd1_caller import Gd1Caller
from dirtybus.compat.gunicorn.gd1_stash import Gd1Stash
from dirtybus.compat.gunicorn.limits import Limits
from dirtybus.errors import DirtyAppNotFoundError, DirtyConnectionError, DirtyNoWorkersAvailableError
from dirtybus.protocol.gd1_messages import Request, Response, StatusAsk

if TYPE_CHECKING:
    from dirtybus.client import DirtyClient as NativeClient
    from dirtybus.compat.gunicorn.gd1_async_caller import Gd1AsyncCaller

__all__ = ["Call", "Road", "StashFunctions", "is_known", "leave", "road_to", "speaks_native"]


class StashFunctions(Protocol):
    """What a stash client needs."""

    def put(self, table: str, key: Any, value: Any) -> object: ...
    def get(self, table: str, key: Any, default: Any = None) -> Any: ...
    def delete(self, table: str, key: Any) -> bool: ...
    def exists(self, table: str, key: Any = ...) -> bool: ...
    def length(self, table: str) -> int: ...
    def keys(self, table: str, pattern: str | None = None) -> list[Any]: ...
    def items(self, table: str) -> list[tuple[Any, Any]]: ...
    def clear(self, table: str) -> object: ...
    def info(self, table: str) -> dict[str, Any]: ...
    def ensure(self, table: str) -> object: ...
    def delete_table(self, table: str) -> bool: ...
    def tables(self) -> list[str]: ...


#: One call: app, action, positional and keyword arguments.
Call = tuple[str, str, tuple[Any, ...], dict[str, Any]]


class Road(Protocol):
    """What a client needs. All raise `DirtyError`; closing or dropping a stream gives its call up.

    ``retire`` says that another arbiter took the path: calls under way go on, connections without one are closed.
    """

    def execute(self, call: Call, limits: Limits) -> Any: ...
    def stream(self, call: Call, limits: Limits) -> Iterator[Any]: ...
    async def execute_async(self, call: Call, limits: Limits) -> Any: ...
    def stream_async(self, call: Call, limits: Limits) -> AsyncGenerator[Any, None]: ...
    def stash(self, timeout_s: float | None) -> StashFunctions: ...
    def retire(self) -> None: ...
    def close(self) -> None: ...
    async def close_async(self) -> None: ...


class NativeRoad:
    """To an arbiter of ours: the arbiter keeps the deadline, and giving a call up ends its work."""

    def __init__(self, path: str) -> None:
        # not on top: it loads asyncio, which gevent's users patch first
        from dirtybus.client import DirtyClient as NativeClient

        self._client: NativeClient = NativeClient(path)

    def execute(self, call: Call, limits: Limits) -> Any:
        with _gunicorns_error():
            return self._client.request(*call, timeout_s=limits.total_s)

    def stream(self, call: Call, limits: Limits) -> Iterator[Any]:
        with _gunicorns_error():
            yield from self._client.request_stream(*call, timeout_s=limits.total_s)

    async def execute_async(self, call: Call, limits: Limits) -> Any:
        with _gunicorns_error():
            return await self._client.request_async(*call, timeout_s=limits.total_s)

    async def stream_async(self, call: Call, limits: Limits) -> AsyncGenerator[Any, None]:
        chunks = self._client.request_stream_async(*call, timeout_s=limits.total_s, idle_timeout_s=limits.idle_s)
        with _gunicorns_error():
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    def stash(self, timeout_s: float | None) -> StashFunctions:
        return self._client.stash

    def retire(self) -> None:
        """Nothing to do: the calls under way, at an arbiter that may be draining, share one connection."""

    def close(self) -> None:
        self._client.close()

    async def close_async(self) -> None:
        await self._client.close_async()


@contextmanager
def _gunicorns_error() -> Iterator[None]:
    """Say what gunicorn says of an app that is not served: it makes no difference to one without workers."""
    try:
        yield
    except DirtyAppNotFoundError as exc:
        raise DirtyNoWorkersAvailableError(str(exc.app_path), exc.message) from exc


class Gd1Road:
    """To an arbiter of gunicorn's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._caller = Gd1Caller(path)
        self._async_caller: Gd1AsyncCaller | None = None

    def execute(self, call: Call, limits: Limits) -> Any:
        return self._caller.result(Request(*call), limits)

    def stream(self, call: Call, limits: Limits) -> Iterator[Any]:
        for answer in self._caller.words(Request(*call), limits):
            yield answer.result if isinstance(answer, Response) else answer.value

    async def execute_async(self, call: Call, limits: Limits) -> Any:
        return await self._in_tasks().result(Request(*call), limits)

    async def stream_async(self, call: Call, limits: Limits) -> AsyncGenerator[Any, None]:
        async with aclosing(self._in_tasks().words(Request(*call), limits)) as words:
            async for answer in words:
                yield answer.result if isinstance(answer, Response) else answer.value

    def stash(self, timeout_s: float | None) -> StashFunctions:
        return Gd1Stash(self._caller, timeout_s)

    def retire(self) -> None:
        self._caller.close()

    def close(self) -> None:
        self._caller.close()

    async def close_async(self) -> None:
        if self._async_caller is not None:
            self._async_caller.close()

    def _in_tasks(self) -> Gd1AsyncCaller:
        from dirtybus.compat.gunicorn.gd1_async_caller import Gd1AsyncCaller

        if self._async_caller is None:
            self._async_caller = Gd1AsyncCaller(self._path)
        return self._async_caller


# --- which road, and who is on it ---------------------------------------------------------------------------------


class _Known:
    """The road to the arbiter whose socket ``mark`` is, and those who use it: from threads, and from tasks."""

    def __init__(self, mark: tuple[int, ...], road: Road) -> None:
        self.mark = mark
        self.road = road
        self.users: dict[bool, WeakSet[object]] = {False: WeakSet(), True: WeakSet()}


_known: dict[str, _Known] = {}
_lock = threading.Lock()


def road_to(path: str, user: object, timeout_s: float | None, *, in_tasks: bool = False) -> Road:
    """Return the road to the arbiter at ``path``, shared by all its users in this process. Blocks when it is new.

    Raises:
        DirtyConnectionError: nobody listens there.
        DirtyTimeoutError: it does not say within ``timeout_s`` seconds what it is.
    """
    mark = _mark(path)
    known = _known.get(path)
    if known is None or known.mark != mark:
        known = _find(path, mark, timeout_s)
    known.users[in_tasks].add(user)
    return known.road


def is_known(path: str) -> bool:
    """Whether `road_to` would return at once."""
    known = _known.get(path)
    return known is not None and known.mark == _mark(path)


def leave(path: str, user: object, *, in_tasks: bool = False) -> Road | None:
    """Note that ``user`` needs its road no more; returns the road when nobody is left on it, to be closed."""
    known = _known.get(path)
    if known is None or user not in known.users[in_tasks]:
        return None
    known.users[in_tasks].discard(user)
    return None if known.users[in_tasks] else known.road


def speaks_native(path: str, timeout_s: float | None) -> bool:
    """Ask the arbiter at ``path`` whether it is one of ours. Raises as `road_to`."""
    caller = Gd1Caller(path)
    try:
        status = caller.result(StatusAsk(), Limits(timeout_s))
    finally:
        caller.close()
    return isinstance(status, dict) and status.get("server") == "dirtybus"


def _find(path: str, mark: tuple[int, ...], timeout_s: float | None) -> _Known:
    road: Road = NativeRoad(path) if speaks_native(path, timeout_s) else Gd1Road(path)
    with _lock:
        found = _known.get(path)
        if found is not None and found.mark == mark:
            return found
        if found is not None:
            found.road.retire()
        made = _known[path] = _Known(mark, road)
        return made


def _mark(path: str) -> tuple[int, ...]:
    """Return what tells this socket from another one at the same path, and this process from its parent."""
    try:
        stat = os.stat(path)
    except OSError as exc:
        raise DirtyConnectionError(f"Failed to connect to dirty arbiter: {exc.strerror}: {path!r}", path) from exc
    return (os.getpid(), stat.st_dev, stat.st_ino, stat.st_ctime_ns)
