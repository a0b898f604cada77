"""Where callers of this process wait until the queue has room for their calls. Knows neither pool nor workers."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from dirtybus.arbiter.calls import Patience, Request
from dirtybus.errors import DirtyError
from dirtybus.pool.model import Call as PoolCall
from dirtybus.pool.model import CallId, Lane
from dirtybus.pool.queue import lane_of
from dirtybus.transport.sinks import Sink

__all__ = ["Lobby"]


@dataclass(frozen=True, slots=True)
class _Ticket:
    """One who waits. ``admitted`` gets the number of the call, in the moment in which there is room for it."""

    number: int
    call: PoolCall
    request: Request
    sink: Sink
    admitted: asyncio.Future[CallId]


class Lobby:
    """First come, first served, in each lane.

    Room is given away in the moment in which it appears: the call is handed in at once, not when its task runs
    again. So nobody can take the room from the one who was next, and one who leaves meanwhile gives it back.

    Args:
        is_full: says whether there is no room for a call.
        hand_in: hands in a call for which there is room, or which gets another answer.
        cancel: gives up a call that was handed in.
    """

    def __init__(
        self,
        is_full: Callable[[PoolCall], bool],
        hand_in: Callable[[Request, Sink], CallId],
        cancel: Callable[[CallId], None],
    ) -> None:
        self._is_full = is_full
        self._hand_in = hand_in
        self._cancel = cancel
        self._lines: dict[Lane, OrderedDict[int, _Ticket]] = {}
        self._numbers = itertools.count()
        self._is_looking = False

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def is_needed(self, call: PoolCall) -> bool:
        """Say whether the call has to wait: there is no room, or others were here before."""
        return lane_of(call) in self._lines or self._is_full(call)

    async def wait(self, call: PoolCall, request: Request, sink: Sink, patience: Patience | None) -> CallId:
        """Wait until ``call`` has room, hand it in and return its number. Cancelling leaves nothing behind.

        Raises:
            DirtyError: that of ``patience``, or why the call was not taken.
        """
        loop = asyncio.get_running_loop()
        ticket = _Ticket(next(self._numbers), call, request, sink, loop.create_future())
        self._lines.setdefault(lane_of(call), OrderedDict())[ticket.number] = ticket
        timer = None if patience is None else loop.call_at(patience.ends_at, self._turn_away, ticket, patience.error)
        try:
            return await ticket.admitted
        except asyncio.CancelledError:
            if not ticket.admitted.cancelled() and ticket.admitted.exception() is None:
                self._cancel(ticket.admitted.result())  # handed in, and nobody waits for it any more
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._leave(ticket)

    def look(self) -> None:
        """Hand in the calls of those who are next, as far as there is room. Call it whenever there may be more."""
        if self._is_looking:  # a call that was just handed in has told of itself
            return
        self._is_looking = True
        try:
            while ticket := self._next():
                self._drop(ticket)
                if ticket.admitted.done():  # it was cancelled, and its task has not run yet
                    continue
                try:
                    ticket.admitted.set_result(self._hand_in(ticket.request, ticket.sink))
                except Exception as exc:  # whatever it is, it is the caller's answer
                    ticket.admitted.set_exception(exc)
        finally:
            self._is_looking = False

    def dismiss(self, error: DirtyError) -> None:
        """Tell all who wait that there will be no room."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for ticket in line.values():
                if not ticket.admitted.done():
                    ticket.admitted.set_exception(error)

    def _next(self) -> _Ticket | None:
        """Return the one who came first of those who are at the head of their line and have room."""
        if not self._lines:
            return None
        heads = [next(iter(line.values())) for line in self._lines.values()]
        fitting = [head for head in heads if head.admitted.done() or not self._is_full(head.call)]
        return min(fitting, key=lambda head: head.number, default=None)

    def _turn_away(self, ticket: _Ticket, error: DirtyError) -> None:
        if not ticket.admitted.done():
            ticket.admitted.set_exception(error)
        self._leave(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        """Let those behind move up: a smaller call than this one may have room."""
        self._drop(ticket)
        self.look()

    def _drop(self, ticket: _Ticket) -> None:
        lane = lane_of(ticket.call)
        line = self._lines.get(lane)
        if line is not None and line.pop(ticket.number, None) is not None and not line:
            del self._lines[lane]
