"""The client of an arbiter in another process: gunicorn.dirty's method names, for threads and for tasks."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dirtybus.client.async_call import AsyncCall
from dirtybus.client.stamina import Stamina
from dirtybus.client.stash_port import AsyncClientPort, ClientPort
from dirtybus.client.sync_call import SyncCall
from dirtybus.client.sync_channel import SyncChannel, Waiter
from dirtybus.client.tries import Tries
from dirtybus.errors import ConfigError, DirtyError, DirtyTimeoutError, Draining
from dirtybus.protocol.arguments import encode_arguments
from dirtybus.protocol.heads import (
    Answer,
    Manage,
    Progress,
    Refusal,
    StatusAsk,
)
from dirtybus.protocol.messages import Message
from dirtybus.stash import AsyncStash, Stash

if TYPE_CHECKING:
    import asyncio

    from dirtybus.client.acquaintance import Acquaintance
    from dirtybus.client.async_channel import AsyncChannel

__all__ = ["DirtyClient"]

_CONNECT_TIMEOUT_S = 5.0
_ASK_TIMEOUT_S = 30.0
OnProgress = Callable[[Progress], object]


class DirtyClient:
    """Call the apps of the arbiter that listens at ``socket_path``.

    All threads share one connection, and so do all tasks of an event loop; every answer is matched to its call.
    It connects when first used, and again when the arbiter was restarted; a call that was under way then fails
    with `DirtyConnectionError`, as it may or may not have run. With ``reconnect_s``, calls that certainly did not
    begin, and those of idempotent actions, are sent again instead, to the arbiter that comes next.

    Args:
        socket_path: the arbiter's Unix socket.
        timeout: the deadline of each call in seconds, kept by the arbiter; None takes the app's own, 0 means none.
        window: how many chunks of a stream may be under way before the reader has taken any.
        reconnect_s: for how many seconds in a row a call tries to reach an arbiter that is gone, leaving or not
            available, within its deadline; 0: it does not.

    Raises:
        ConfigError: ``reconnect_s`` is no such number.
    """

    def __init__(
        self, socket_path: str, timeout: float | None = None, *, window: int = 32, reconnect_s: float = 0.0
    ) -> None:
        if not 0 <= reconnect_s < float("inf"):
            raise ConfigError(f"reconnect_s must be a number of seconds >= 0, not {reconnect_s!r}")
        self.socket_path = os.fspath(socket_path)
        self.timeout = timeout
        self.stash = Stash(ClientPort(self))
        self.stash_async = AsyncStash(AsyncClientPort(self))
        self._window = window
        self._lock = threading.Lock()
        self._sync: SyncChannel | None = None
        self._async: dict[asyncio.AbstractEventLoop, AsyncChannel] = {}
        self._connecting: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self.stamina = Stamina(reconnect_s)
        #: set when the threads' connection is closed, for the calls that were made before
        self.closed = threading.Event()
        self._closed_async: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}

    @property
    def resent(self) -> int:
        """How many times a call was sent again."""
        return self.stamina.resent

    @property
    def unknown(self) -> int:
        """How many calls ended without anybody knowing whether they ran to their end."""
        return self.stamina.unknown

    # --- for threads ---

    def connect(self) -> None:
        """Connect now rather than at the first call.

        Raises:
            DirtyConnectionError: nobody listens there.
        """
        self.channel()

    def execute(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> Any:
        """Run ``action`` of ``app_path`` and return its value; the list of chunks when it yields.

        Raises:
            EncodeError: an argument cannot be sent; nothing was started.
            DirtyAppError: the action raised.
            DirtyTimeoutError: the deadline passed; the work is ended.
            DirtyConnectionError: the arbiter cannot be reached, or went away before it answered.
            Unavailable: not now.
        """
        return self.request(app_path, action, args, kwargs)

    def request(
        self,
        app_path: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """As `execute`, with a deadline and a priority of its own, and reports on the way.

        ``priority``, from -100 to 100, is the call's rank among those that wait; None takes the action's own.
        """
        tries, body = self._tries(app_path, action, timeout_s, priority), encode_arguments(args, kwargs)
        return SyncCall(self, tries, body, self._window, on_progress=on_progress).result()

    def stream(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield what the action yields, as it comes. Closing or dropping the iterator ends the work.

        Raises as `execute`; the chunks before an error come first.
        """
        return self.request_stream(app_path, action, args, kwargs)

    def request_stream(  # noqa: PLR0913 - what a caller may say of its call, all optional by keyword
        self,
        app_path: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        idle_timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Any]:
        """As `stream`, with limits of its own and reports on the way; ``idle_timeout_s`` bounds each wait."""
        tries, body = self._tries(app_path, action, timeout_s, priority), encode_arguments(args, kwargs)
        call = SyncCall(self, tries, body, self._window, idle_timeout_s=idle_timeout_s, on_progress=on_progress)
        yield from call.chunks()

    def status(self) -> dict[str, Any]:
        """Return what is going on at the arbiter, as plain values."""
        return _values(self.ask(lambda channel: channel.start(StatusAsk())))

    def scale(
        self, workers: int | None = None, *, app: str | None = None, pool_size: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """Ask for another number of workers, or instances of ``app``; or for another ``pool_size``.

        Returns what is aimed at now and why, if it differs.

        Raises:
            DirtyAppNotFoundError: nothing serves the app.
            ConfigError: it has no meaning for this pool; says why.
        """
        return self._manage("scale", {"workers": workers, "app": app, "pool_size": pool_size})

    def reload(self, timeout_s: float | None = None) -> None:
        """Have new workers with the code and the settings of now; returns when they serve.

        Args:
            timeout_s: how long to wait; None and 0: as long as it takes. The reload goes on when nobody waits for it.

        Raises:
            BootFailed: the new workers could not start; the old ones serve on. The details hold the report.
            ConfigError: the settings of now cannot be used; likewise.
            Draining: the arbiter is about to end.
            DirtyTimeoutError: it took longer than ``timeout_s``.
            DirtyConnectionError: the arbiter cannot be reached, or went away.
        """
        self._manage("reload", {}, timeout_s or math.inf)

    def stop(self) -> None:
        """Ask the arbiter to drain and stop; returns when it has agreed."""
        self._manage("stop", {})

    def close(self) -> None:
        """Hang up the threads' connection; the next call connects anew. May be called twice."""
        with self._lock:
            channel, self._sync = self._sync, None
            closed, self.closed = self.closed, threading.Event()
        closed.set()
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # --- for tasks ---

    async def connect_async(self) -> None:
        """Connect this event loop now rather than at the first call. Raises as `connect`."""
        await self.channel_async()

    async def execute_async(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> Any:
        """As `execute`, without blocking the loop. Cancelling cancels the call; other calls are not disturbed."""
        return await self.request_async(app_path, action, args, kwargs)

    async def request_async(
        self,
        app_path: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """As `execute_async`, with a deadline of its own and reports on the way."""
        tries, body = self._tries(app_path, action, timeout_s, priority), encode_arguments(args, kwargs)
        return await AsyncCall(self, tries, body, on_progress=on_progress).result()

    def stream_async(self, app_path: str, action: str, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """As `stream`, without blocking the loop."""
        return self.request_stream_async(app_path, action, args, kwargs)

    async def request_stream_async(  # noqa: PLR0913 - what a caller may say of its call, all optional by keyword
        self,
        app_path: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        idle_timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncGenerator[Any, None]:
        """As `stream_async`, with limits of its own and reports on the way."""
        tries, body = self._tries(app_path, action, timeout_s, priority), encode_arguments(args, kwargs)
        async with aclosing(AsyncCall(self, tries, body, on_progress=on_progress).chunks(idle_timeout_s)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close_async(self) -> None:
        """Hang up this loop's connection; the next call connects anew. May be called twice."""
        import asyncio

        loop = asyncio.get_running_loop()
        channel, closed = self._async.pop(loop, None), self._closed_async.pop(loop, None)
        if closed is not None:
            closed.set()
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> Self:
        await self.connect_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close_async()

    # --- the connections ---

    def channel(self) -> SyncChannel:
        """Return the threads' connection, made anew when the arbiter or this process is another one.

        Raises:
            DirtyConnectionError: nobody listens there.
        """
        with self._lock:
            if self._sync is not None and self._sync.is_usable:
                return self._sync
            broken, self._sync = self._sync, None
            if broken is not None:
                broken.discard()
            self._sync = SyncChannel(self.socket_path, _CONNECT_TIMEOUT_S, greets=self.stamina.reconnects)
            return self._sync

    async def channel_async(self) -> AsyncChannel:
        """Return this loop's connection, as `channel`."""
        import asyncio

        from dirtybus.client.async_channel import AsyncChannel

        loop = asyncio.get_running_loop()
        channel = self._async.get(loop)
        if channel is not None and channel.is_usable:
            await channel.look()
            if channel.is_usable:
                return channel
        self._forget_closed_loops()
        async with self._connecting.setdefault(loop, asyncio.Lock()):  # or each waiting task makes one of its own
            channel = self._async.get(loop)
            if channel is None or not channel.is_usable:
                channel = await AsyncChannel.open(
                    self.socket_path, _CONNECT_TIMEOUT_S, self._window, greets=self.stamina.reconnects
                )
                self._async[loop] = channel
        return channel

    def ask(self, start: Callable[[SyncChannel], Waiter], timeout_s: float = _ASK_TIMEOUT_S) -> Message:
        """Ask the arbiter itself and return its answer.

        Raises:
            DirtyError: it refused.
            DirtyTimeoutError: it did not answer within ``timeout_s`` seconds.
            DirtyConnectionError: it cannot be reached.
        """
        return self.begin_ask(start, timeout_s)()

    def begin_ask(self, start: Callable[[SyncChannel], Waiter], timeout_s: float) -> Callable[[], Message]:
        """Ask the arbiter itself; return what waits for its answer, and raises as `ask`. It is to be called once."""
        channel = self.channel()
        return partial(self._finish_ask, channel, start(channel), timeout_s)

    def _finish_ask(self, channel: SyncChannel, waiter: Waiter, timeout_s: float) -> Message:
        try:
            message = channel.next(waiter, None if math.isinf(timeout_s) else time.monotonic() + timeout_s)
        except TimeoutError:
            raise DirtyTimeoutError(
                f"the arbiter at {self.socket_path!r} did not answer within {timeout_s:g} s",
                timeout_s,
                "the client",
                "unanswered",
            ) from None
        finally:
            channel.forget(waiter)
        if isinstance(message.head, Refusal):
            raise DirtyError.from_dict(message.head.error)
        return message

    def _manage(self, verb: str, arguments: Mapping[str, Any], timeout_s: float = _ASK_TIMEOUT_S) -> dict[str, Any]:
        return _values(self.ask(lambda channel: channel.start(Manage(verb=verb, arguments=arguments)), timeout_s))

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in {*self._async, *self._closed_async} if loop.is_closed()]:
            self._async.pop(loop, None)
            self._connecting.pop(loop, None)
            self._closed_async.pop(loop, None)

    # --- what a call needs ---

    def channel_for_call(self) -> SyncChannel:
        """Return the threads' connection, as `channel`, unless a call would be refused there.

        Raises:
            Draining: it would be, and is to be sent to whoever comes next.
        """
        channel = self.channel()
        self._refuse_if_leaving(channel.peer)
        return channel

    async def channel_for_call_async(self) -> AsyncChannel:
        """Return this loop's connection, as `channel_for_call`."""
        channel = await self.channel_async()
        self._refuse_if_leaving(channel.peer)
        return channel

    def closed_async(self) -> asyncio.Event:
        """Return what is set when this loop's connection is closed."""
        import asyncio

        loop = asyncio.get_running_loop()
        closed = self._closed_async.get(loop)
        if closed is None:
            closed = self._closed_async[loop] = asyncio.Event()
        return closed

    def _refuse_if_leaving(self, peer: Acquaintance) -> None:
        if self.stamina.reconnects and peer.is_draining:
            raise Draining(f"the arbiter at {self.socket_path!r} is shutting down; the call was not sent")

    def _tries(self, app: str, action: str, timeout_s: float | None, priority: int | None) -> Tries:
        return self.stamina.tries(app, action, self.timeout if timeout_s is None else timeout_s, priority)


def _values(answer: Message) -> dict[str, Any]:
    assert isinstance(answer.head, Answer)
    values: dict[str, Any] = answer.head.value
    return values
