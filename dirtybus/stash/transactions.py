"""Several operations that happen together or not at all. Collects them; the port carries them out as one."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from dirtybus.errors import StashError
from dirtybus.stash.key import key_bytes
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import Condition, Simple, Transact
from dirtybus.stash.port import AsyncPort, SyncPort
from dirtybus.stash.questions import Question, Questions
from dirtybus.stash.spans import Span

__all__ = ["AsyncTransaction", "Later", "Transaction"]

T = TypeVar("T")
_NOT_YET: Final = object()


class Later(Generic[T]):
    """What an operation of a transaction returns, once that is committed."""

    __slots__ = ("_read", "_value")

    def __init__(self, question: Question[T]) -> None:
        self._read = question.read
        self._value: Any = _NOT_YET

    def settle(self, reply: StashReply) -> None:
        self._value = self._read(reply)

    @property
    def value(self) -> T:
        """What the operation returned.

        Raises:
            StashError: the transaction is not committed.
        """
        if self._value is _NOT_YET:
            raise StashError("the transaction is not committed, so its operations have no values yet")
        value: T = self._value
        return value


class _Draft:
    """The operations, and what must not change until they are carried out."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._steps: list[tuple[Simple, Later[Any]]] = []
        self._versions: dict[tuple[str, bytes], int] = {}
        self._is_over = False

    def put(
        self, table: str, key: Any, value: Any, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Later[int]:
        return self._step(self._questions.put(table, key, value, expires_in, idle))

    def put_many(
        self, table: str, entries: Mapping[Any, Any], *, expires_in: Span | None = None, idle: Span | None = None
    ) -> None:
        for question in self._questions.put_many(table, entries, expires_in, idle):
            self._step(question)

    update = put_many

    def setdefault(self, table: str, key: Any, default: Any = None, *, expires_in: Span | None = None) -> Later[Any]:
        return self._step(self._questions.setdefault(table, key, default, expires_in, None))

    def delete(self, table: str, key: Any) -> Later[bool]:
        return self._step(self._questions.delete(table, key))

    def pop(self, table: str, key: Any, default: Any = None) -> Later[Any]:
        return self._step(self._questions.pop(table, key, default))

    def incr(self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None) -> Later[Any]:
        return self._step(self._questions.incr(table, key, by, expires_in, None))

    def decr(self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None) -> Later[Any]:
        return self._step(self._questions.incr(table, key, -by, expires_in, None))

    def touch(self, table: str, key: Any, expires_in: Span | None = None) -> Later[bool]:
        return self._step(self._questions.touch(table, key, expires_in))

    def push(self, table: str, key: Any, *items: Any, left: bool = False) -> Later[int]:
        return self._step(self._questions.push(table, key, items, None, None, left=left))

    def pop_left(self, table: str, key: Any, default: Any = None) -> Later[Any]:
        return self._step(self._questions.pop_item(table, key, default, left=True))

    def pop_right(self, table: str, key: Any, default: Any = None) -> Later[Any]:
        return self._step(self._questions.pop_item(table, key, default, left=False))

    def add(self, table: str, key: Any, *members: Any) -> Later[int]:
        return self._step(self._questions.add(table, key, members, None, None))

    def remove(self, table: str, key: Any, *members: Any) -> Later[int]:
        return self._step(self._questions.remove(table, key, members))

    def clear(self, table: str) -> Later[int]:
        return self._step(self._questions.clear(table))

    def if_unchanged(self, table: str, key: Any, version: int) -> None:
        """Commit only if the entry still has this version; 0: if there is none. `get` says so of what it returns."""
        self._versions.setdefault((table, key_bytes(key)), version)

    def _step(self, question: Question[T]) -> Later[T]:
        if self._is_over:
            raise StashError("the transaction is over; begin another")
        later = Later(question)
        # in one piece with the rest, so it is sent
        op = question.op if question.plain is None else question.plain()
        assert isinstance(op, Simple)
        self._steps.append((op, later))
        return later

    def _op(self) -> Transact | None:
        """Return what is to be carried out; None: there is nothing to do and nothing to check."""
        self._is_over = True
        if not self._steps and not self._versions:
            return None
        conditions = tuple(Condition(table, key, version) for (table, key), version in self._versions.items())
        return Transact(tuple(op for op, _ in self._steps), conditions)

    def _settle(self, reply: StashReply) -> None:
        for (_, later), one in zip(self._steps, reply.replies, strict=True):
            later.settle(one)


class Transaction(_Draft):
    """Operations that are carried out together when the block ends; none of them, if it ends by an exception.

    ::

        with stash.transaction() as tx:
            left = tx.get("accounts", "ada")
            tx.put("accounts", "ada", left - 10)
            tx.incr("accounts", "bob", 10)

    What `get` returned must not have changed when the block ends. The functions are those of `Stash`; each returns a
    `Later`, whose ``value`` is there after the block.

    Raises:
        StashConflict: (at the end of the block) something did change; nothing was done. See `Stash.transact`.
        StashError: (at the end of the block) an operation was refused; nothing was done.
    """

    def __init__(self, port: SyncPort, questions: Questions) -> None:
        super().__init__(questions)
        self._port = port

    def get(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value that stands there now, before the transaction; it must not change until its end."""
        question = self._questions.get_with_version(table, key, default)
        value, version = question.read(self._port.ask(question.plain() if question.plain else question.op))
        self.if_unchanged(table, key, version)
        return value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        op = self._op()
        if kind is None and op is not None:
            self._settle(self._port.ask(op))


class AsyncTransaction(_Draft):
    """`Transaction` for tasks: ``async with``, and ``await tx.get(…)``; the other functions are not awaited."""

    def __init__(self, port: AsyncPort, questions: Questions) -> None:
        super().__init__(questions)
        self._port = port

    async def get(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value that stands there now, before the transaction; it must not change until its end."""
        question = self._questions.get_with_version(table, key, default)
        value, version = question.read(await self._port.ask(question.plain() if question.plain else question.op))
        self.if_unchanged(table, key, version)
        return value

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        op = self._op()
        if kind is None and op is not None:
            self._settle(await self._port.ask(op))
