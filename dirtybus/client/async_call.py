"""One call of a task: sent, and sent again where that may be, until it has its last word. Loads no asyncio itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from dirtybus.client.stamina import Stamina
from dirtybus.client.tries import Tries
from dirtybus.errors import DirtyConnectionError, Unavailable
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import Progress

if TYPE_CHECKING:
    import asyncio

    from dirtybus.client.acquaintance import Acquaintance
    from dirtybus.client.async_channel import AsyncChannel

__all__ = ["AsyncCall"]


class _Client(Protocol):
    """What a call needs of its client."""

    stamina: Stamina

    def closed_async(self) -> asyncio.Event: ...
    async def channel_for_call_async(self) -> AsyncChannel: ...


class AsyncCall:
    """Run once, by `result` or by `chunks`. Cancelling cancels the call, wherever it is.

    Args:
        client: gives connections.
        tries: those of this call.
        body: the arguments. They were encoded once, so that every try sends the same.
        on_progress: told of reports; None when nobody asked.
    """

    def __init__(
        self,
        client: _Client,
        tries: Tries,
        body: Sequence[Buffer],
        *,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> None:
        self._client = client
        self._closed = client.closed_async()
        self._tries = tries
        self._body = body
        self._on_progress = on_progress
        self._peer: Acquaintance | None = None

    async def result(self) -> Any:
        """Return its value; the list of chunks when it yields."""
        tries = self._tries
        while True:
            try:
                channel = await self._reach()
                patience = self._client.stamina.begin(tries)
                return await channel.execute(
                    tries.app, tries.action, self._body, patience, self._on_progress, tries.priority
                )
            except (Unavailable, DirtyConnectionError) as exc:
                pause_s = self._pause_s(exc)
            await self._rest(pause_s)

    async def chunks(self, idle_timeout_s: float | None) -> AsyncGenerator[Any, None]:
        """Yield what it yields, as it comes; ``idle_timeout_s`` bounds each wait."""
        tries = self._tries
        while True:
            try:
                channel = await self._reach()
                patience = self._client.stamina.begin(tries)
                words = channel.stream(
                    tries.app, tries.action, self._body, patience, idle_timeout_s, self._on_progress, tries.priority
                )
                async with aclosing(words):
                    async for chunk in words:
                        tries.has_given = True
                        yield chunk
            except (Unavailable, DirtyConnectionError) as exc:
                pause_s = self._pause_s(exc)
            else:
                return
            await self._rest(pause_s)

    async def _reach(self) -> AsyncChannel:
        self._peer = None
        if self._closed.is_set():
            raise DirtyConnectionError("the client was closed before the call was taken", started=False)
        channel = await self._client.channel_for_call_async()
        self._peer = channel.peer
        return channel

    def _pause_s(self, error: Unavailable | DirtyConnectionError) -> float:
        if self._closed.is_set():
            raise error
        return self._client.stamina.pause_s(self._tries, error, self._peer)

    async def _rest(self, pause_s: float) -> None:
        import asyncio

        try:
            async with asyncio.timeout(pause_s):
                await self._closed.wait()
        except TimeoutError:
            return
