"""`gunicorn.dirty.client`: the same clients and functions, over connections that all of a process shares.

Loads no asyncio until an async method is used, so that gevent may patch first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Self

from dirtybus.compat.gunicorn import stash
from dirtybus.compat.gunicorn.limits import Limits
from dirtybus.compat.gunicorn.roads import Call, Road, is_known, leave, road_to
from dirtybus.errors import DirtyError

__all__ = [
    "DirtyAsyncStreamIterator",
    "DirtyClient",
    "DirtyStreamIterator",
    "close_dirty_client",
    "close_dirty_client_async",
    "get_dirty_client",
    "get_dirty_client_async",
    "get_dirty_socket_path",
    "set_dirty_socket_path",
]


class DirtyClient:
    """Call the apps of the arbiter at ``socket_path``, from any thread or task.

    Answers never reach another call, whatever became of the one they were for. Against an arbiter of ours, giving a
    call up (by timeout, cancelling, or dropping a stream) ends its work; gunicorn's goes on with it.

    Args:
        socket_path: the arbiter's Unix socket.
        timeout: how long each call may take in seconds; None leaves it to the arbiter.
    """

    def __init__(self, socket_path: str, timeout: float | None = 30.0) -> None:
        self.socket_path = os.fspath(socket_path)
        self.timeout = timeout

    # --- for threads ---

    def connect(self) -> None:
        """Find out what listens there, now rather than at the first call.

        Raises:
            DirtyConnectionError: nobody listens there.
        """
        self.road()

    def execute(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> Any:
        """Run ``action`` of ``app_path`` and return its result; the list of chunks when it yields.

        Raises:
            DirtyConnectionError: the arbiter cannot be reached, or went away before it answered.
            DirtyTimeoutError: it took longer than ``timeout``.
            DirtyError: the call failed.
        """
        return self.road().execute((app_path, action, args, kwargs), Limits(self.timeout))

    def stream(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> DirtyStreamIterator:
        """Return an iterator over what the action yields; over its one result when it returns."""
        return DirtyStreamIterator(self, app_path, action, args, kwargs)

    def close(self) -> None:
        """Note that threads need it no more; the last client at a path hangs up. It may be used again."""
        road = leave(self.socket_path, self)
        if road is not None:
            road.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- for tasks ---

    async def connect_async(self) -> None:
        """As `connect`, without blocking the loop."""
        await self.road_async()

    async def execute_async(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> Any:
        """As `execute`, without blocking the loop. Cancelling gives the call up and disturbs no other."""
        road = await self.road_async()
        return await road.execute_async((app_path, action, args, kwargs), Limits(self.timeout))

    def stream_async(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> DirtyAsyncStreamIterator:
        """As `stream`, without blocking the loop."""
        return DirtyAsyncStreamIterator(self, app_path, action, args, kwargs)

    async def close_async(self) -> None:
        """As `close`, for the running event loop."""
        road = leave(self.socket_path, self, in_tasks=True)
        if road is not None:
            await road.close_async()

    async def __aenter__(self) -> Self:
        await self.connect_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()

    # --- the way there ---

    def road(self) -> Road:
        """Return the way to the arbiter. Raises as `connect`."""
        return road_to(self.socket_path, self, self.timeout)

    async def road_async(self) -> Road:
        """As `road`, without blocking the loop."""
        if not is_known(self.socket_path):
            from dirtybus.in_thread import in_thread

            return await in_thread(partial(road_to, self.socket_path, self, self.timeout, in_tasks=True))
        return road_to(self.socket_path, self, self.timeout, in_tasks=True)


class _Stream:
    """What both kinds of stream know: the call, and how long it and each of its chunks may take."""

    #: The most seconds that a chunk may take, where the client's own timeout is longer.
    DEFAULT_IDLE_TIMEOUT: Final = 30.0

    def __init__(
        self,
        client: DirtyClient,
        app_path: str,
        action: str,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        idle_timeout: float | None = None,
    ) -> None:
        self.client = client
        self.app_path = app_path
        self.action = action
        self.args = args
        self.kwargs = kwargs or {}
        longest_s = self.DEFAULT_IDLE_TIMEOUT if client.timeout is None else client.timeout
        idle_s = min(self.DEFAULT_IDLE_TIMEOUT, longest_s) if idle_timeout is None else idle_timeout
        self._limits = Limits(client.timeout, idle_s)

    @property
    def _call(self) -> Call:
        return (self.app_path, self.action, self.args, self.kwargs)


class DirtyStreamIterator(_Stream):
    """The chunks of one call, which begins with the first step. Dropping or closing it gives the call up."""

    _chunks: Iterator[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._chunks is None:
            self._chunks = self.client.road().stream(self._call, self._limits)
        return next(self._chunks)

    def close(self) -> None:
        """Give the call up; there are no more chunks. May be called twice."""
        # a generator ends its work when it goes
        self._chunks = iter(())


class DirtyAsyncStreamIterator(_Stream):
    """The chunks of one call for tasks, which begins with the first step. Closing it gives the call up."""

    _chunks: AsyncGenerator[Any, None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._chunks is None:
            road = await self.client.road_async()
            self._chunks = road.stream_async(self._call, self._limits)
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """Give the call up; there are no more chunks. May be called twice."""
        if self._chunks is not None:
            await self._chunks.aclose()


# --- one client a thread, one a context, as gunicorn has it; their connections are the same -----------------------

_VARIABLES: Final = ("DIRTYBUS_SOCKET", "GUNICORN_DIRTY_SOCKET")
_of_thread = threading.local()
_of_context: ContextVar[DirtyClient] = ContextVar("dirty_client")
_socket_path: str | None = None


def set_dirty_socket_path(path: str | None) -> None:
    """Name the arbiter's socket for this process, the stash's too; None goes back to the environment."""
    global _socket_path
    _socket_path = path
    stash.set_stash_socket_path(path)


def get_dirty_socket_path() -> str:
    """Return the path of the arbiter's socket: what was set, ``DIRTYBUS_SOCKET``, or ``GUNICORN_DIRTY_SOCKET``.

    Raises:
        DirtyError: none of them is.
    """
    path = _socket_path or next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if path is None:
        raise DirtyError(
            "Dirty socket path not configured. Set DIRTYBUS_SOCKET to the socket of a running arbiter "
            "(dirtybus run module:Class --socket PATH), or call set_dirty_socket_path(PATH)"
        )
    return path


def get_dirty_client(timeout: float | None = 30.0) -> DirtyClient:
    """Return the client of this thread. ``timeout`` counts where it is made: the first time, and at a new path.

    Raises:
        DirtyError: no socket path is known.
    """
    path = get_dirty_socket_path()
    client: DirtyClient | None = getattr(_of_thread, "client", None)
    if client is None or client.socket_path != path:
        client = _of_thread.client = DirtyClient(path, timeout)
    return client


async def get_dirty_client_async(timeout: float | None = 30.0) -> DirtyClient:
    """Return the client of this context. As `get_dirty_client` else."""
    path = get_dirty_socket_path()
    client = _of_context.get(None)
    if client is None or client.socket_path != path:
        client = DirtyClient(path, timeout)
        _of_context.set(client)
    return client


def close_dirty_client() -> None:
    """Close the client of this thread and forget it. May be called twice."""
    client: DirtyClient | None = getattr(_of_thread, "client", None)
    _of_thread.client = None
    if client is not None:
        client.close()


async def close_dirty_client_async() -> None:
    """Close the client of this context. May be called twice."""
    client = _of_context.get(None)
    if client is not None:
        await client.close_async()
