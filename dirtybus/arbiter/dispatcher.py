"""The dispatcher: puts the calls on their way to the workers that the pool chose. Chooses nobody itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dirtybus.arbiter.crew import Crew
from dirtybus.arbiter.desk import CallDesk
from dirtybus.errors import LocalProtocolError
from dirtybus.pool import ports
from dirtybus.pool.model import CallId
from dirtybus.protocol.heads import Call, Credit, RunBatch
from dirtybus.protocol.messages import Message

__all__ = ["Dispatcher"]


class Dispatcher:
    """Send what callers say to the worker that has their call.

    Args:
        desk: the open calls.
        crew: the workers.
        on_sent: told when a worker was sent a call.
        feed: takes the fact that a call could not be sent.
    """

    def __init__(
        self, desk: CallDesk, crew: Crew, *, on_sent: Callable[[], object], feed: Callable[[ports.Fact], object]
    ) -> None:
        self._desk = desk
        self._crew = crew
        self._on_sent = on_sent
        self._feed = feed

    def dispatch(self, order: ports.Dispatch) -> None:
        """Send a call to its worker. Nothing happens when either is gone: the pool hears of it by another fact."""
        call, record = self._desk.get(order.call), self._crew.get(order.worker)
        if call is None or record is None:
            return
        now = asyncio.get_running_loop().time()
        call.worker = order.worker
        call.entry.start(order.attempt, now)
        record.calls[order.call] = call.entry
        self._on_sent()
        left = None if call.expires_at is None else call.expires_at - now
        request = call.request
        head = Call(
            app=request.app,
            action=request.action,
            time_left_s=left,
            window=request.window,
            attempt=order.attempt,
            batch=order.batch or 0,
        )
        try:
            self._crew.send(order.worker, Message(head, order.call, request.body))
        except LocalProtocolError as exc:  # a head that is no small one: a name of a megabyte, from a client
            self._desk.settle(order.call, exc, now)
            self._feed(ports.Finished(order.worker, order.call))

    def run_batch(self, order: ports.RunBatch) -> None:
        """Tell the worker that it has every call of the batch that could be sent."""
        self._crew.send(order.worker, Message(RunBatch(batch=order.batch)))

    def credit(self, call_id: CallId, chunks: int) -> None:
        """The reader took so many chunks: the worker may send as many more."""
        call = self._desk.get(call_id)
        if call is not None and call.worker is not None:
            self._crew.send(call.worker, Message(Credit(chunks=chunks), call_id))
