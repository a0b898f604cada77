"""What workers ask of the stash. Knows no table and no process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dirtybus import log
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.errors import DirtyError, LocalProtocolError
from dirtybus.pool.model import WorkerId
from dirtybus.protocol.messages import Message
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_many import Ensure
from dirtybus.stash.wire import answer_message, op_of

__all__ = ["StashQuestions"]


class StashQuestions:
    """Brings the questions of workers to a keeper, and its answers back.

    Args:
        keeper: keeps the tables.
        send: sends a message to a worker, if it is still there.
    """

    def __init__(self, keeper: Keeper, send: Callable[[WorkerId, Message], bool]) -> None:
        self._keeper = keeper
        self._send = send

    def make(self, tables: Iterable[str]) -> None:
        """Make the tables that apps name."""
        for table in tables:
            self._keeper.submit(Ensure(table), "the owner", _expect_made)

    def take(self, record: WorkerRecord, message: Message) -> None:
        """Take a question; the worker gets its answer now, or when what it waits for has come."""

        def answer(outcome: StashReply | DirtyError) -> None:
            try:
                self._send(record.id, answer_message(outcome, message.id))
            except LocalProtocolError as exc:  # it is larger than a message may be
                self._send(record.id, answer_message(exc, message.id))

        try:
            op = op_of(message)
        except DirtyError as exc:
            answer(exc)
        else:
            self._keeper.submit(op, record.stash_caller, answer)

    def leave(self, record: WorkerRecord) -> None:
        """The worker is gone: what it held is free."""
        self._keeper.leave(record.stash_caller)


def _expect_made(outcome: StashReply | DirtyError) -> None:
    if isinstance(outcome, DirtyError):  # an app asks for more tables than there may be
        log.logger.error("a table that an app names in `stashes` was not made: {}", outcome)
