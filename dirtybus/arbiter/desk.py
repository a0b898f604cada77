"""The open calls and their books: every word on a call passes here, and the last one settles it once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from dirtybus.arbiter.calls import OpenCall, Request, failure_error
from dirtybus.arbiter.directory import Terms
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.ledger import Ledger
from dirtybus.errors import ActionNotFound, DirtyError
from dirtybus.pool.model import CallId
from dirtybus.protocol.heads import (
    Chunk,
    End,
    Failure,
    Progress,
    Reply,
)
from dirtybus.protocol.messages import Message
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
        entry = self.ledger.accept(call_id, request.app, request.action, now)
        call = self._open[call_id] = OpenCall(call_id, request, sink, terms, expires_at, entry)
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

    def check_books(self) -> None:
        """Raise AssertionError when the ledger does not balance, or knows of other open calls than the desk."""
        self.ledger.check()
        booked = {entry.id for entry in self.ledger.open_entries()}
        assert booked == self._open.keys(), f"the calls {booked ^ self._open.keys()} are open in one place only"

    def apps(self) -> Mapping[CallId, str]:
        """Return the open calls and the app of each."""
        return {call_id: call.request.app for call_id, call in self._open.items()}

    def get(self, call_id: CallId) -> OpenCall | None:
        """Return the call while it is open."""
        return self._open.get(call_id)

    def settle(self, call_id: CallId, error: DirtyError, now: float) -> None:
        """End an open call with ``error``; nothing happens when it is settled."""
        call = self._open.pop(call_id, None)
        if call is not None:
            self.ledger.settle(call_id, error, now)
            call.sink.fail(error)

    def note_death(self, calls: Iterable[CallId], why: str, status: ExitStatus) -> None:
        """Book for those of the calls that are open that a worker has died in which they had begun."""
        for call_id in calls:
            if call := self._open.get(call_id):
                call.deaths, call.last_exit = (*call.deaths, why), status

    def settle_all(self, error: DirtyError, now: float) -> None:
        """End every open call with ``error``, whose details then say whether the call may have begun."""
        for call_id, call in list(self._open.items()):
            told = DirtyError.from_dict(error.to_dict())
            told.details["started"] = call.worker is not None
            self.settle(call_id, told, now)

    def pass_on(self, message: Message, now: float) -> bool:
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
                self._close(call, now)
                call.sink.reply(message.payload)
            case End():
                self._close(call, now)
                call.sink.end()
            case Failure():
                self.settle(call.id, failure_error(call, head.error), now)
        return False

    def _close(self, call: OpenCall, now: float) -> None:
        del self._open[call.id]
        self.ledger.settle(call.id, None, now)
