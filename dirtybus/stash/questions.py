"""Every stash function once: the operation to ask for and how to read its reply. Knows no port, so it cannot ask."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from dirtybus.errors import StashError
from dirtybus.protocol.codec import Resolver, decode_body, encode_body, loaded_types
from dirtybus.stash.key import key_bytes
from dirtybus.stash.ops import StashOp, StashReply

__all__ = ["ABSENT", "Absent", "Question", "Questions"]

T = TypeVar("T")


class Absent(enum.Enum):
    """Says that no key or default was given, where None would be one."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What to ask a port, and how to read what it replies."""

    op: StashOp
    read: Callable[[StashReply], T]


class Questions:
    """Makes the question of each function. ``resolve`` finds the classes of values that come back."""

    def __init__(self, resolve: Resolver = loaded_types) -> None:
        self._resolve = resolve

    def put(self, table: str, key: object, value: object) -> Question[None]:
        return Question(_op("put", table, key, value), _nothing)

    def get(self, table: str, key: object, default: Any) -> Question[Any]:
        return Question(_op("get", table, key), lambda reply: self._value_or(default, reply))

    def pop(self, table: str, key: object, default: Any) -> Question[Any]:
        return Question(_op("pop", table, key), lambda reply: self._value_or(default, reply))

    def setdefault(self, table: str, key: object, default: object) -> Question[Any]:
        return Question(_op("setdefault", table, key, default), lambda reply: self._value_or(default, reply))

    def delete(self, table: str, key: object) -> Question[bool]:
        return Question(_op("delete", table, key), _is_true)

    def exists(self, table: str, key: object) -> Question[bool]:
        return Question(_op("exists", table, key), _is_true)

    def length(self, table: str) -> Question[int]:
        return Question(_op("length", table), _count)

    def keys(self, table: str, pattern: str | None) -> Question[list[Any]]:
        return Question(_op("keys", table, pattern=pattern), lambda reply: self._decoded(reply.keys))

    def items(self, table: str) -> Question[list[tuple[Any, Any]]]:
        return Question(_op("items", table), self._pairs)

    def clear(self, table: str) -> Question[int]:
        return Question(_op("clear", table), _count)

    def info(self, table: str) -> Question[dict[str, Any]]:
        return Question(_op("info", table), lambda reply: dict(reply.info or {}))

    def ensure(self, table: str) -> Question[bool]:
        return Question(_op("ensure", table), _is_true)

    def delete_table(self, table: str) -> Question[bool]:
        return Question(_op("delete_table", table), _is_true)

    def tables(self) -> Question[list[str]]:
        return Question(StashOp("tables"), lambda reply: list(reply.names))

    def _value_or(self, default: Any, reply: StashReply) -> Any:
        return default if reply.value is None else decode_body(reply.value, resolve=self._resolve)

    def _decoded(self, bodies: tuple[bytes, ...]) -> list[Any]:
        return [decode_body(body, resolve=self._resolve) for body in bodies]

    def _pairs(self, reply: StashReply) -> list[tuple[Any, Any]]:
        return list(zip(self._decoded(reply.keys), self._decoded(reply.values), strict=True))


def _op(verb: str, table: str, key: object = ABSENT, value: object = ABSENT, pattern: str | None = None) -> StashOp:
    return StashOp(
        verb,
        _text(table, "a table name"),
        None if key is ABSENT else key_bytes(key),
        None if value is ABSENT else b"".join(encode_body(value, root="value")),
        None if pattern is None else _text(pattern, "a key pattern"),
    )


def _text(text: object, what: str) -> str:
    """Return ``text`` as a plain str: a StrEnum member names the table that its value names."""
    if not isinstance(text, str):
        raise StashError(f"{what} in the stash is a str, not {text!r:.80} of type {type(text).__name__}")
    try:
        _ = text.isascii() or text.encode()
    except UnicodeEncodeError as exc:
        raise StashError(f"{what} in the stash must be valid Unicode, {text!r:.80} is not") from exc
    return str.__str__(text)


def _nothing(_: StashReply) -> None:
    return None


def _is_true(reply: StashReply) -> bool:
    return reply.is_true


def _count(reply: StashReply) -> int:
    return reply.count
