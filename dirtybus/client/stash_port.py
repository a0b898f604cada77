"""The way from an attached process to the owner's stash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dirtybus.protocol.messages import Message
from dirtybus.stash.ops import StashOp, StashReply
from dirtybus.stash.wire import ask_message, reply_of

__all__ = ["AsyncClientPort", "ClientPort"]


class _Asker(Protocol):
    def ask(self, start: Callable[[Any], Any]) -> Message: ...
    async def channel_async(self) -> Any: ...


class ClientPort:
    """For threads."""

    def __init__(self, client: _Asker) -> None:
        self._client = client

    def ask(self, op: StashOp) -> StashReply:
        question = ask_message(op)
        return reply_of(self._client.ask(lambda channel: channel.start(question.head, question.body)))


class AsyncClientPort:
    """For tasks."""

    def __init__(self, client: _Asker) -> None:
        self._client = client

    async def ask(self, op: StashOp) -> StashReply:
        channel = await self._client.channel_async()
        return reply_of(await channel.ask(lambda ask_id: ask_message(op, ask_id)))
