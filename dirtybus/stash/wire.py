"""Operations and replies as messages of a link. Knows no table."""

from __future__ import annotations

from typing import Final

import msgspec

from dirtybus.errors import DirtyError, RemoteProtocolError
from dirtybus.protocol.heads import Refusal, StashAnswer, StashAsk
from dirtybus.protocol.messages import Message
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp, decode_op, encode_op

__all__ = ["answer_message", "ask_message", "op_of", "reply_of"]

_ASK: Final = StashAsk()
_ANSWER: Final = StashAnswer()
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StashReply).decode


def ask_message(op: StashOp, id: int = 0) -> Message:  # noqa: A002 - as in Message
    """Return the message that asks for ``op``. Raises as `encode_op`."""
    return Message(_ASK, id, (encode_op(op),))


def op_of(message: Message) -> StashOp:
    """Read what `ask_message` made.

    Raises:
        RemoteProtocolError: it asks for something else, or says it in another way.
    """
    if type(message.head) is not StashAsk:
        raise RemoteProtocolError(f"the peer asked for no operation of the stash, but sent {message.head.kind.name}")
    return decode_op(message.payload)


def answer_message(outcome: StashReply | DirtyError, id: int = 0) -> Message:  # noqa: A002 - as in Message
    """Return the message that carries a reply, or why there is none."""
    if isinstance(outcome, DirtyError):
        return Message(Refusal(error=outcome.to_dict()), id)
    return Message(_ANSWER, id, (_encode(outcome),))


def reply_of(message: Message) -> StashReply:
    """Read what `answer_message` made of a reply.

    Raises:
        RemoteProtocolError: it answers something else, or says it in another way.
    """
    if type(message.head) is not StashAnswer:
        raise RemoteProtocolError(f"the peer answered no operation of the stash, but sent {message.head.kind.name}")
    try:
        return _decode(message.payload)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise RemoteProtocolError(f"the peer sent what is no reply of the stash: {exc}") from exc
