"""The body of a call: its arguments, positional and by keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dirtybus.errors import RemoteProtocolError
from dirtybus.protocol.codec import Resolver, decode_body, encode_body
from dirtybus.protocol.frames import Buffer

__all__ = ["decode_arguments", "encode_arguments"]


def encode_arguments(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Buffer]:
    """Return the body of a call.

    Raises:
        EncodeError: an argument cannot be sent; says which type, and where.
    """
    return encode_body([list(args), dict(kwargs or {})], root=("args", "kwargs"))


def decode_arguments(body: Buffer, *, resolve: Resolver) -> tuple[list[Any], dict[str, Any]]:
    """Read what `encode_arguments` wrote.

    Raises:
        RemoteProtocolError: the body is malformed, or holds something else.
        DecodeError: a type in it cannot be found here.
    """
    pair = decode_body(body, resolve=resolve)
    match pair:
        case [list() as args, dict() as kwargs] if all(isinstance(name, str) for name in kwargs):
            return args, kwargs
    raise RemoteProtocolError("the body of a call must hold a list of arguments and a map of named ones")
