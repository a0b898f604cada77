"""The stash's functions for tasks. Knows no table and no socket."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from dirtybus.errors import StashConflict
from dirtybus.protocol.codec import Resolver, loaded_types
from dirtybus.stash.async_table_view import AsyncStashTable
from dirtybus.stash.leasing import AsyncLeasing
from dirtybus.stash.names import RESERVED
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.port import AsyncPort
from dirtybus.stash.questions import ABSENT, Paged, Question, Questions
from dirtybus.stash.spans import Span
from dirtybus.stash.transactions import AsyncTransaction
from dirtybus.stash.tries import Tries
from dirtybus.stash.watchers import AsyncWatcher

__all__ = ["AsyncStash"]

T = TypeVar("T")


class AsyncStash(AsyncLeasing):
    """The stash for tasks: the functions of `Stash`, to be awaited. Its contract holds here too.

    A cancelled function was carried out wholly or not at all.
    """

    def __init__(self, port: AsyncPort, *, resolve: Resolver = loaded_types) -> None:
        self._port = port
        self._resolve = resolve
        self._questions = Questions(resolve)

    # --- one entry ---

    async def put(
        self, table: str, key: Any, value: Any, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> int:
        return await self._ask(self._questions.put(table, key, value, expires_in, idle))

    async def get(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.get(table, key, default))

    async def get_with_version(self, table: str, key: Any, default: Any = None) -> tuple[Any, int]:
        return await self._ask(self._questions.get_with_version(table, key, default))

    async def pop(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.pop(table, key, default))

    async def setdefault(
        self,
        table: str,
        key: Any,
        default: Any = None,
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> Any:
        return await self._ask(self._questions.setdefault(table, key, default, expires_in, idle))

    async def delete(self, table: str, key: Any) -> bool:
        return await self._ask(self._questions.delete(table, key))

    async def exists(self, table: str, key: Any = ABSENT) -> bool:
        return await self._ask(self._questions.exists(table, key))

    async def touch(self, table: str, key: Any, expires_in: Span | None = None) -> bool:
        return await self._ask(self._questions.touch(table, key, expires_in))

    async def ttl(self, table: str, key: Any) -> float | None:
        return await self._ask(self._questions.ttl(table, key))

    async def incr(
        self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        return await self._ask(self._questions.incr(table, key, by, expires_in, idle))

    async def decr(
        self, table: str, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        return await self._ask(self._questions.incr(table, key, -by, expires_in, idle))

    async def cas(self, table: str, key: Any, expected: Any, new: Any, *, expires_in: Span | None = None) -> bool:
        return await self._ask(self._questions.cas(table, key, expected, new, expires_in))

    # --- many entries ---

    async def put_many(
        self,
        table: str,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        questions = self._questions.put_many(table, entries, expires_in, idle)
        return sum([count async for count in self._ask_each(questions)])

    update = put_many

    async def get_many(self, table: str, keys: Iterable[Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        async for some in self._ask_each(self._questions.get_many(table, keys)):
            found.update(some)
        return found

    async def delete_many(self, table: str, keys: Iterable[Any]) -> int:
        return sum([count async for count in self._ask_each(self._questions.delete_many(table, keys))])

    async def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        return [
            key async for key in self.iterate(lambda cursor: self._questions.page_of_keys(table, cursor, 1000, pattern))
        ]

    async def items(self, table: str, pattern: str | None = None) -> list[tuple[Any, Any]]:
        return [key async for key in self.iterate(lambda cursor: self._questions.page(table, cursor, 1000, pattern))]

    async def scan(
        self, table: str, cursor: tuple[int, int] | None = None, *, count: int = 1000, pattern: str | None = None
    ) -> Paged[tuple[Any, Any]]:
        return await self._ask(self._questions.page(table, cursor, count, pattern))

    # --- a table ---

    async def length(self, table: str) -> int:
        return await self._ask(self._questions.length(table))

    async def clear(self, table: str) -> int:
        return await self._ask(self._questions.clear(table))

    async def info(self, table: str) -> dict[str, Any]:
        return await self._ask(self._questions.info(table))

    async def ensure(self, table: str, **rules: Any) -> bool:
        return await self._ask(self._questions.ensure(table, rules))

    async def delete_table(self, table: str) -> bool:
        return await self._ask(self._questions.delete_table(table))

    async def tables(self) -> list[str]:
        return await self._ask(self._questions.tables())

    def table(self, name: str) -> AsyncStashTable:
        return AsyncStashTable(self, name, self._questions)

    async def export(self, *tables: str) -> AsyncIterator[str]:
        from dirtybus.stash.lines import first_line, table_line  # not on top: it loads json

        yield first_line()
        for table in tables or [name for name in await self.tables() if not name.startswith(RESERVED)]:
            yield table_line(await self.info(table))
            page = partial(self._questions.page_to_export, table)
            async for line in self.iterate(page):
                yield line

    async def import_lines(self, lines: Iterable[str]) -> int:
        return sum([count async for count in self._ask_each(self._questions.imported(lines))])

    # --- lists and sets ---

    async def push(
        self,
        table: str,
        key: Any,
        *items: Any,
        left: bool = False,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        return await self._ask(self._questions.push(table, key, items, expires_in, idle, left=left))

    async def pop_left(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.pop_item(table, key, default, left=True))

    async def pop_right(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.pop_item(table, key, default, left=False))

    async def pop_many(self, table: str, key: Any, count: int, *, left: bool = True) -> list[Any]:
        return await self._ask(self._questions.pop_items(table, key, count, left=left))

    async def add(
        self, table: str, key: Any, *members: Any, expires_in: Span | None = None, idle: Span | None = None
    ) -> int:
        return await self._ask(self._questions.add(table, key, members, expires_in, idle))

    async def remove(self, table: str, key: Any, *members: Any) -> int:
        return await self._ask(self._questions.remove(table, key, members))

    async def size(self, table: str, key: Any) -> int:
        return await self._ask(self._questions.size(table, key))

    # --- several together ---

    def transaction(self) -> AsyncTransaction:
        return AsyncTransaction(self._port, self._questions)

    async def transact(self, function: Callable[..., Awaitable[T]], *args: Any, within: Span = 30.0) -> T:
        import asyncio  # it is loaded: a task runs

        tries = Tries(within)
        while True:
            try:
                async with self.transaction() as tx:
                    result = await function(tx, *args)
            except StashConflict:
                await asyncio.sleep(tries.pause_s())
            else:
                return result

    # --- what changes ---

    def watch(self, table: str, pattern: str | None = None, *, timeout: Span | None = None) -> AsyncWatcher:
        return AsyncWatcher(self._port, table, pattern, timeout, self._resolve)

    # --- for the package ---

    async def iterate(self, page: Callable[[tuple[int, int] | None], Question[Paged[T]]]) -> AsyncIterator[T]:
        cursor: tuple[int, int] | None = None
        while True:
            found, cursor = await self._ask(page(cursor))
            for each in found:
                yield each
            if cursor is None:
                return

    async def _ask_each(self, questions: Iterable[Question[T]]) -> AsyncIterator[T]:
        import asyncio  # it is loaded: a task runs

        under_way: deque[tuple[Question[T], asyncio.Task[StashReply]]] = deque()
        try:
            for question in questions:
                under_way.append((question, asyncio.ensure_future(self._begin(question.op))))
                await asyncio.sleep(0)  # it goes out before the next is written
                if len(under_way) > 1:
                    first, asked = under_way.popleft()
                    yield first.read(await asked)
            while under_way:
                first, asked = under_way.popleft()
                yield first.read(await asked)
        finally:
            left = [asked for _, asked in under_way]
            for asked in left:
                asked.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _begin(self, op: StashOp) -> StashReply:
        return await self._port.ask(op)

    async def _ask(self, question: Question[T]) -> T:
        answer = question.answer(await self._port.ask(question.op))
        return question.read(answer if isinstance(answer, StashReply) else await self._port.ask(answer))
