"""The arbiter's door for callers in its own process: values in, values out, cancelled when the caller leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from dirtybus.arbiter.calls import Request
from dirtybus.config import DirtyConfig
from dirtybus.pool.model import CallId
from dirtybus.protocol.arguments import encode_arguments
from dirtybus.protocol.heads import Progress
from dirtybus.transport.sinks import Sink, StreamSink, ValueSink

__all__ = ["LocalCaller"]

OnProgress = Callable[[Progress], object]


class LocalCaller(ABC):
    """Makes calls out of values, over whatever accepts requests."""

    config: DirtyConfig

    @abstractmethod
    def submit(self, request: Request, sink: Sink) -> CallId: ...
    @abstractmethod
    async def enter(self, request: Request, sink: Sink) -> CallId: ...
    @abstractmethod
    def cancel(self, call_id: CallId) -> None: ...
    @abstractmethod
    def credit(self, call_id: CallId, chunks: int) -> None: ...

    async def call(self, app: str, action: str, *args: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Run ``action`` of ``app`` and return its value; the list of chunks when it yields.

        Cancelling cancels the call: it leaves the queue, or its worker is told.

        Args:
            app: import path ``module:Class``.
            action: the action's name.
            args: its positional arguments.
            timeout_s: one deadline in seconds over queueing and running; None takes the action's own, 0 means none.
            kwargs: its keyword arguments.

        Raises:
            EncodeError: an argument cannot be sent; nothing was started.
            DirtyAppError: the action raised.
            DirtyTimeoutError: the deadline passed; says whose it was and where the call was.
            WorkerLost: the worker died with the call in it.
            Unavailable: not now: draining, the queue is full, or no worker.
        """
        return await self.execute(app, action, args, kwargs, timeout_s=timeout_s)

    async def execute(  # noqa: PLR0913 - what a caller may say of its call, all optional by keyword
        self,
        app: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        on_progress: OnProgress | None = None,
        on_chunk: Callable[[Any], object] | None = None,
    ) -> Any:
        """As `call`, with the arguments as values.

        ``priority``, from -100 to 100, is the call's rank among those that wait; None takes the action's own.
        ``on_progress`` is told of the action's reports, ``on_chunk`` of each value that it yields.
        """
        request = self._request(app, action, args, kwargs, timeout_s, priority)
        call_id = CallId(0)  # until `enter` returns, which is before the loop hears the worker's first word
        sink = ValueSink(lambda chunks: self.credit(call_id, chunks), on_progress, on_chunk)
        call_id = await self.enter(request, sink)
        try:
            return await sink.outcome
        finally:
            self.cancel(call_id)  # nothing happens when it is settled

    async def stream(  # noqa: PLR0913 - what a caller may say of its call, all optional by keyword
        self,
        app: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        idle_timeout_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield what the action yields, as it comes; one chunk when it returns a value.

        The call begins with the first step. A reader that stops reading holds up only its own action. Closing or
        dropping the iterator closes the generator in the worker. Raises as `call`; the chunks before an error come
        first. ``priority`` is as in `execute`; ``idle_timeout_s`` bounds the wait for each chunk, apart from the
        deadline.
        """
        idle = idle_timeout_s if idle_timeout_s is not None else self.config.stream_idle_timeout_s
        request = self._request(app, action, args, kwargs, timeout_s, priority)
        call_id = CallId(0)
        sink = StreamSink(lambda chunks: self.credit(call_id, chunks), request.window, on_progress)
        call_id = await self.enter(request, sink)
        try:
            while chunk := await sink.read(idle or None):
                yield chunk[0]
        finally:
            if not sink.is_ended:
                self.cancel(call_id)

    def _request(
        self,
        app: str,
        action: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        timeout_s: float | None,
        priority: int | None,
    ) -> Request:
        body, window = encode_arguments(args, kwargs), self.config.stream_window
        return Request(app=app, action=action, body=body, timeout_s=timeout_s, window=window, priority=priority)
