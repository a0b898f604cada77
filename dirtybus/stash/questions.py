"""Every stash function once: the operation to ask for and how to read its reply. Knows no port, so it cannot ask."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import structs

from dirtybus.errors import ConfigError, StashError, StashKeyNotFoundError
from dirtybus.protocol.codec import Resolver, decode_body, encode_body, encode_whole, loaded_types
from dirtybus.shared_memory import THRESHOLD_BYTES, SharedBody, is_available
from dirtybus.stash import ops_entries, ops_many, ops_parts
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.ops_many import Rules
from dirtybus.stash.spans import Span, seconds_or_none

__all__ = ["ABSENT", "Absent", "Question", "Questions"]

if TYPE_CHECKING:
    from dirtybus.stash.lines import Exported

T = TypeVar("T")
#: So many entries, or bytes, go into one operation.
_MANY: Final = 1000
_MANY_BYTES: Final = 1024 * 1024


class Absent(enum.Enum):
    """Says that no key, value or default was given, where None would be one."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT: Final = Absent.ABSENT

#: What a page holds, and where the next one begins.
Paged = tuple[list[T], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What to ask a port, and how to read what it replies.

    ``plain`` is the operation that does the same without shared memory, for when the other side cannot see ours.
    """

    op: StashOp
    read: Callable[[StashReply], T]
    plain: Callable[[], StashOp] | None = None
    #: is to live until the answer is there
    keeps: object = None

    def answer(self, reply: StashReply) -> StashReply | StashOp:
        """Return the reply with its value, or the operation to ask for instead."""
        if self.plain is None or not (reply.wants_bytes or reply.shared):
            return reply
        body = None if reply.shared is None else SharedBody.open(reply.shared)
        # the reader takes any buffer; a view of shared memory is not copied
        return self.plain() if body is None else structs.replace(reply, value=body.view())


class Questions:
    """Makes the question of each function. ``resolve`` finds the classes of values that come back."""

    def __init__(self, resolve: Resolver = loaded_types) -> None:
        self._resolve = resolve

    # --- one entry ---

    def put(self, table: str, key: object, value: object, expires_in: Span | None, idle: Span | None) -> Question[int]:
        parts = encode_body(value, root="value")
        where, spans = (_name(table), key_bytes(key)), _spans(expires_in, idle)

        def plain() -> StashOp:
            return ops_entries.Put(*where, b"".join(parts), *spans)

        if sum(map(len, parts)) >= THRESHOLD_BYTES and (shared := SharedBody.of(parts)):
            return Question(ops_entries.PutShared(*where, shared.ref(), *spans), _version, plain, shared)
        return Question(plain(), _version)

    def get(self, table: str, key: object, default: Any) -> Question[Any]:
        return self._get(table, key, lambda reply: self._value_or(default, reply))

    def get_with_version(self, table: str, key: object, default: Any) -> Question[tuple[Any, int]]:
        return self._get(table, key, lambda reply: (self._value_or(default, reply), reply.version))

    def pop(self, table: str, key: object, default: Any) -> Question[Any]:
        return Question(ops_entries.Pop(_name(table), key_bytes(key)), lambda reply: self._value_or(default, reply))

    def setdefault(
        self, table: str, key: object, default: object, expires_in: Span | None, idle: Span | None
    ) -> Question[Any]:
        op = ops_entries.SetDefault(_name(table), key_bytes(key), _body(default), *_spans(expires_in, idle))
        return Question(op, lambda reply: self._value_or(None, reply))

    def delete(self, table: str, key: object) -> Question[bool]:
        return Question(ops_entries.Delete(_name(table), key_bytes(key)), _is_true)

    def exists(self, table: str, key: object) -> Question[bool]:
        return Question(ops_entries.Exists(_name(table), None if key is ABSENT else key_bytes(key)), _is_true)

    def touch(self, table: str, key: object, expires_in: Span | None) -> Question[bool]:
        return Question(
            ops_entries.Touch(_name(table), key_bytes(key), seconds_or_none(expires_in, "expires_in")), _is_true
        )

    def ttl(self, table: str, key: object) -> Question[float | None]:
        def read(reply: StashReply) -> float | None:
            if not reply.is_true:
                raise StashKeyNotFoundError(table, key)
            return reply.span_s

        return Question(ops_entries.Ttl(_name(table), key_bytes(key)), read)

    def incr(
        self, table: str, key: object, by: float, expires_in: Span | None, idle: Span | None
    ) -> Question[int | float]:
        if type(by) is not int and type(by) is not float:
            raise StashError(f"a number in the stash grows by an int or a float, not by {by!r:.80}")
        op = ops_entries.Incr(_name(table), key_bytes(key), by, *_spans(expires_in, idle))
        return Question(op, lambda reply: self._value_or(0, reply))

    def cas(self, table: str, key: object, expected: object, new: object, expires_in: Span | None) -> Question[bool]:
        op = ops_entries.Cas(
            _name(table),
            key_bytes(key),
            None if expected is ABSENT else _body(expected),
            None if new is ABSENT else _body(new),
            seconds_or_none(expires_in, "expires_in"),
        )
        return Question(op, _is_true)

    # --- many entries ---

    def put_many(
        self,
        table: str,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        expires_in: Span | None,
        idle: Span | None,
    ) -> Iterator[Question[int]]:
        """Make the questions that store all entries, some at a time."""
        name, spans = _name(table), _spans(expires_in, idle)
        keys: list[bytes] = []
        values: list[bytes] = []
        size_bytes = 0
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            keys.append(key_bytes(key))
            values.append(_body(value))
            size_bytes += len(keys[-1]) + len(values[-1])
            if len(keys) >= _MANY or size_bytes >= _MANY_BYTES:
                yield Question(ops_many.PutMany(name, tuple(keys), tuple(values), *spans), _count)
                keys, values, size_bytes = [], [], 0
        if keys:
            yield Question(ops_many.PutMany(name, tuple(keys), tuple(values), *spans), _count)

    def get_many(self, table: str, keys: Iterable[Any]) -> Iterator[Question[dict[Any, Any]]]:
        """Make the questions for all keys, some at a time; each gives those that are there."""
        for some in _some(keys):
            op = ops_many.GetMany(_name(table), tuple(key_bytes(key) for key in some))
            yield Question(op, self._reader_of(some))

    def delete_many(self, table: str, keys: Iterable[Any]) -> Iterator[Question[int]]:
        for some in _some(keys):
            yield Question(ops_many.DeleteMany(_name(table), tuple(key_bytes(key) for key in some)), _count)

    def page_of_keys(
        self, table: str, cursor: tuple[int, int] | None, count: int, pattern: str | None
    ) -> Question[Paged[Any]]:
        op = ops_many.Page(_name(table), cursor, count, _pattern(pattern))
        return Question(op, lambda reply: (self._decoded(reply.keys), reply.cursor))

    def page(
        self, table: str, cursor: tuple[int, int] | None, count: int, pattern: str | None
    ) -> Question[Paged[tuple[Any, Any]]]:
        op = ops_many.Page(_name(table), cursor, count, _pattern(pattern), has_values=True)
        return Question(op, lambda reply: (self._pairs(reply), reply.cursor))

    def page_to_export(self, table: str, cursor: tuple[int, int] | None) -> Question[Paged[str]]:
        from dirtybus.stash.lines import entry_lines  # not on top: few export, and it loads json

        op = ops_many.Page(_name(table), cursor, _MANY, has_values=True, has_spans=True)
        return Question(op, lambda reply: (list(entry_lines(table, reply)), reply.cursor))

    def imported(self, lines: Iterable[str]) -> Iterator[Question[int]]:
        """Make the questions that store what was exported, some at a time."""
        from dirtybus.stash.lines import Exported, ExportedTable, read_lines

        some: list[Exported] = []
        for record in read_lines(lines):
            if some and (isinstance(record, ExportedTable) or not _go_together(some, record)):
                yield _stored(some)
                some = []
            if isinstance(record, Exported):
                some.append(record)
            else:
                made = self.ensure(record.table, record.rules)
                yield Question(made.op, _nothing_stored)
        if some:
            yield _stored(some)

    # --- a table ---

    def length(self, table: str) -> Question[int]:
        return Question(ops_many.Length(_name(table)), _count)

    def clear(self, table: str) -> Question[int]:
        return Question(ops_many.Clear(_name(table)), _count)

    def info(self, table: str) -> Question[dict[str, Any]]:
        return Question(ops_many.Info(_name(table)), lambda reply: dict(reply.info or {}))

    def ensure(self, table: str, rules: Mapping[str, Any]) -> Question[bool]:
        return Question(ops_many.Ensure(_name(table), _rules(table, rules) if rules else None), _is_true)

    def delete_table(self, table: str) -> Question[bool]:
        return Question(ops_many.DeleteTable(_name(table)), _is_true)

    def tables(self) -> Question[list[str]]:
        return Question(ops_many.Tables(), lambda reply: list(reply.names))

    # --- lists and sets ---

    def push(
        self,
        table: str,
        key: object,
        items: Iterable[object],
        expires_in: Span | None,
        idle: Span | None,
        *,
        left: bool,
    ) -> Question[int]:
        parts = tuple(_part(item) for item in items)
        return Question(ops_parts.Push(_name(table), key_bytes(key), parts, left, *_spans(expires_in, idle)), _count)

    def pop_item(self, table: str, key: object, default: Any, *, left: bool) -> Question[Any]:
        def read(reply: StashReply) -> Any:
            return default if reply.value is None else decode_body(reply.value, resolve=self._resolve)[0]

        return Question(ops_parts.PopItems(_name(table), key_bytes(key), 1, left), read)

    def pop_items(self, table: str, key: object, count: int, *, left: bool) -> Question[list[Any]]:
        if type(count) is not int or count < 1:
            raise StashError(f"the number of items to pop is at least 1, not {count!r:.80}")
        op = ops_parts.PopItems(_name(table), key_bytes(key), count, left)
        return Question(op, lambda reply: self._value_or([], reply))

    def add(
        self, table: str, key: object, members: Iterable[object], expires_in: Span | None, idle: Span | None
    ) -> Question[int]:
        parts = tuple(_member(member) for member in members)
        return Question(ops_parts.Add(_name(table), key_bytes(key), parts, *_spans(expires_in, idle)), _count)

    def remove(self, table: str, key: object, members: Iterable[object]) -> Question[int]:
        parts = tuple(_member(member) for member in members)
        return Question(ops_parts.Remove(_name(table), key_bytes(key), parts), _count)

    def size(self, table: str, key: object) -> Question[int]:
        return Question(ops_parts.Size(_name(table), key_bytes(key)), _count)

    # --- reading ---

    def _get(self, table: str, key: object, read: Callable[[StashReply], T]) -> Question[T]:
        op = ops_entries.Get(_name(table), key_bytes(key), is_available())
        return Question(op, read, lambda: structs.replace(op, takes_shared=False))

    def _value_or(self, default: Any, reply: StashReply) -> Any:
        return default if reply.value is None else decode_body(reply.value, resolve=self._resolve)

    def _decoded(self, bodies: Iterable[bytes | None]) -> list[Any]:
        return [decode_body(body or b"", resolve=self._resolve) for body in bodies]

    def _pairs(self, reply: StashReply) -> list[tuple[Any, Any]]:
        return list(zip(self._decoded(reply.keys), self._decoded(reply.values), strict=True))

    def _reader_of(self, keys: list[Any]) -> Callable[[StashReply], dict[Any, Any]]:
        def read(reply: StashReply) -> dict[Any, Any]:
            pairs = zip(keys, reply.values, strict=True)
            return {key: decode_body(body, resolve=self._resolve) for key, body in pairs if body is not None}

        return read


def _go_together(some: list[Exported], record: Exported) -> bool:
    first = some[0]
    return (
        len(some) < _MANY
        and first.table == record.table
        and first.idle_s == record.idle_s
        and first.expires_in_s == record.expires_in_s
    )


def _stored(some: list[Exported]) -> Question[int]:
    keys, values = tuple(record.key for record in some), tuple(record.value for record in some)
    return Question(ops_many.PutMany(some[0].table, keys, values, some[0].expires_in_s, some[0].idle_s), _count)


def _nothing_stored(_: StashReply) -> int:
    return 0


def _rules(table: str, rules: Mapping[str, Any]) -> Rules:
    from dirtybus.config.stash import read_rules  # not on top: few need it, and it loads all settings

    try:
        return Rules.of(read_rules(rules, source="arguments"))
    except ConfigError as exc:
        raise StashError(f"the rules of table {table!r}: {exc}") from None


def _body(value: object) -> bytes:
    return b"".join(encode_body(value, root="value"))


def _part(item: object) -> bytes:
    return encode_whole(item, root="item")[1:]


def _member(member: object) -> bytes:
    try:
        hash(member)
    except TypeError:
        raise StashError(f"a member of a set must be hashable, a {type(member).__name__} is not; use a tuple") from None
    return encode_whole(member, root="member")[1:]


def _spans(expires_in: Span | None, idle: Span | None) -> tuple[float | None, float | None]:
    return seconds_or_none(expires_in, "expires_in"), seconds_or_none(idle, "idle")


def _some(keys: Iterable[Any]) -> Iterator[list[Any]]:
    some: list[Any] = []
    for key in keys:
        some.append(key)
        if len(some) == _MANY:
            yield some
            some = []
    if some:
        yield some


def _name(table: object) -> str:
    return _text(table, "a table name")


def _pattern(pattern: object) -> str | None:
    return None if pattern is None else _text(pattern, "a key pattern")


def _text(text: object, what: str) -> str:
    """Return ``text`` as a plain str: a StrEnum member names the table that its value names."""
    if not isinstance(text, str):
        raise StashError(f"{what} in the stash is a str, not {text!r:.80} of type {type(text).__name__}")
    try:
        _ = text.isascii() or text.encode()
    except UnicodeEncodeError as exc:
        raise StashError(f"{what} in the stash must be valid Unicode, {text!r:.80} is not") from exc
    return str.__str__(text)


def _version(reply: StashReply) -> int:
    return reply.version


def _is_true(reply: StashReply) -> bool:
    return reply.is_true


def _count(reply: StashReply) -> int:
    return reply.count
