"""The way from an attached process to the owner's stash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dirtybus.protocol.messages import Message
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.wire import ask_message, reply_of

__all__ = ["AsyncClientPort", "ClientPort"]


#: how long an arbiter may take to answer, beyond what the operation itself may wait
_ASK_TIMEOUT_S = 30.0


class _Asker(Protocol):
    def begin_ask(self, start: Callable[[Any], Any], timeout_s: float) -> Callable[[], Message]: ...
    async def channel_async(self) -> Any: ...


class ClientPort:
    """For threads."""

    def __init__(self, client: _Asker) -> None:
        self._client = client

    def ask(self, op: StashOp) -> StashReply:
        return self.begin(op)()

    def begin(self, op: StashOp) -> Callable[[], StashReply]:
        """Ask, and return what waits for the answer: so one question is on its way while the next is written."""
        question = ask_message(op)
        start = lambda channel: channel.start(question.head, question.body)  # noqa: E731
        finish = self._client.begin_ask(start, _ASK_TIMEOUT_S + op.longest_wait_s)
        return lambda: reply_of(finish())


class AsyncClientPort:
    """For tasks."""

    def __init__(self, client: _Asker) -> None:
        self._client = client

    async def ask(self, op: StashOp) -> StashReply:
        channel = await self._client.channel_async()
        return reply_of(await channel.ask(lambda ask_id: ask_message(op, ask_id)))
