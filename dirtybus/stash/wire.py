"""Operations and replies as messages of a link. Knows no table; the value travels as the body, so it is not copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from dirtybus.errors import DirtyError, RemoteProtocolError
from dirtybus.protocol.messages import Answer, Message, Refusal, StashAsk
from dirtybus.stash.ops import StashOp, StashReply

__all__ = ["answer_message", "answer_to", "ask_message", "op_of", "reply_of"]

T = TypeVar("T", StashOp, StashReply)


def ask_message(op: StashOp, id: int = 0) -> Message:  # noqa: A002 - as in Message
    """Return the message that asks for ``op``."""
    return Message(StashAsk(op=_plain(op)), id, _body(op))


def op_of(message: Message) -> StashOp:
    """Read what `ask_message` made.

    Raises:
        RemoteProtocolError: it asks for something else, or says it in another way.
    """
    head = message.head
    return _read(head.op if isinstance(head, StashAsk) else head, message, StashOp)


def answer_message(reply: StashReply, id: int = 0) -> Message:  # noqa: A002 - as in Message
    """Return the message that carries ``reply``."""
    return Message(Answer(value=_plain(reply)), id, _body(reply))


def answer_to(message: Message, ask: Callable[[StashOp], StashReply]) -> Message:
    """Return what to say to a message that `ask_message` made: the reply of ``ask``, or why there is none."""
    try:
        return answer_message(ask(op_of(message)), message.id)
    except DirtyError as exc:
        return Message(Refusal(error=exc.to_dict()), message.id)


def reply_of(message: Message) -> StashReply:
    """Read what `answer_message` made.

    Raises:
        RemoteProtocolError: it answers something else, or says it in another way.
    """
    head = message.head
    return _read(head.value if isinstance(head, Answer) else head, message, StashReply)


def _plain(said: StashOp | StashReply) -> Mapping[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(said, value=None), builtin_types=(bytes,))
    return fields


def _body(said: StashOp | StashReply) -> tuple[bytes, ...]:
    return () if said.value is None else (said.value,)


def _read(plain: object, message: Message, kind: type[T]) -> T:
    try:
        said = msgspec.convert(plain, kind, builtin_types=(bytes,))  # else a str passes for base64
    except (msgspec.ValidationError, RecursionError) as exc:
        raise RemoteProtocolError(f"the peer sent what is no {kind.__name__}: {exc}") from exc
    # an encoded value has a byte at least; what is kept must not keep the whole frame alive
    return msgspec.structs.replace(said, value=bytes(message.payload)) if message.body else said
