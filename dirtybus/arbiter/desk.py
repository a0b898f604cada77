"""The open calls and their books: every word on a call passes here, and the last one settles it once."""

from __future__ import annotations

import itertools
import math

from dirtybus.arbiter.calls import OpenCall, Request, failure_error
from dirtybus.arbiter.directory import Terms
from dirtybus.arbiter.ledger import Ledger
from dirtybus.errors import ActionNotFound, DirtyError
from dirtybus.pool.model import CallId
from dirtybus.protocol.messages import Chunk, End, Failure, Message, Progress, Reply
from dirtybus.transport.sinks import Sink

__all__ = ["CallDesk"]

_MAX_NAME_CHARS = 256  # the head of a call must fit beside the largest body


class CallDesk:
    """Accept calls, pass their words on to their sinks, settle each exactly once."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._ids = itertools.count(1)
        self._open: dict[CallId, OpenCall] = {}

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, request: Request, sink: Sink, terms: Terms, now: float) -> OpenCall:
        """Book a new call.

        Raises:
            DirtyError: its deadline or its action's name is none; nothing was booked.
        """
        self.check(request, terms)
        call_id = CallId(next(self._ids))
        asked_at = now if request.asked_at is None else request.asked_at
        expires_at = None if terms.timeout_s is None else asked_at + terms.timeout_s
        call = self._open[call_id] = OpenCall(call_id, request, sink, terms, expires_at)
        self.ledger.accept()
        return call

    @staticmethod
    def check(request: Request, terms: Terms) -> None:
        """Raise `DirtyError` for a call that `accept` would not book."""
        if terms.timeout_s is not None and math.isnan(terms.timeout_s):
            raise DirtyError(f"{request.app}: a timeout must be a number of seconds, not nan")
        if len(request.action) > _MAX_NAME_CHARS:
            raise ActionNotFound(
                f"{request.app} has no action with a name of {len(request.action)} characters", app_path=request.app
            )

    def get(self, call_id: CallId) -> OpenCall | None:
        """Return the call while it is open."""
        return self._open.get(call_id)

    def settle(self, call_id: CallId, error: DirtyError) -> None:
        """End an open call with ``error``; nothing happens when it is settled."""
        call = self._open.pop(call_id, None)
        if call is not None:
            self.ledger.settle(error)
            call.sink.fail(error)

    def settle_all(self, error: DirtyError) -> None:
        """End every open call with ``error``, whose details then say whether the call may have begun."""
        for call_id, call in list(self._open.items()):
            told = DirtyError.from_dict(error.to_dict())
            told.details["started"] = call.worker is not None
            self.settle(call_id, told)

    def pass_on(self, message: Message) -> bool:
        """Give a worker's word on a call to its sink. Returns whether it was the first chunk of its stream.

        A word on a call that is settled goes nowhere; a last one is counted as late.
        """
        call = self._open.get(CallId(message.id))
        head = message.head
        if call is None:
            self.ledger.late += not isinstance(head, Chunk | Progress)
            return False
        match head:
            case Chunk():
                is_first, call.has_streamed = not call.has_streamed, True
                call.sink.chunk(message.payload)
                return is_first
            case Progress():
                call.sink.progress(head)
            case Reply():
                self._close(call)
                call.sink.reply(message.payload)
            case End():
                self._close(call)
                call.sink.end()
            case Failure():
                self.settle(call.id, failure_error(call, head.error))
        return False

    def _close(self, call: OpenCall) -> None:
        del self._open[call.id]
        self.ledger.settle(None)
