"""One table for tasks. Holds no entry: every look is a question to the handle it came from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dirtybus.errors import StashKeyNotFoundError
from dirtybus.stash.questions import ABSENT, Paged, Questions
from dirtybus.stash.spans import Span
from dirtybus.stash.table_view import pairs_of, present

if TYPE_CHECKING:
    from dirtybus.stash.async_handle import AsyncStash
    from dirtybus.stash.watchers import AsyncWatcher

__all__ = ["AsyncStashTable"]


class AsyncStashTable:
    """`StashTable` for tasks: the same entries, functions and errors, each function to be awaited.

    ``await table[key]`` reads as ``[]`` does; ``async for key in table`` goes over the keys as a loop there does.
    """

    def __init__(self, stash: AsyncStash, name: str, questions: Questions) -> None:
        self._stash = stash
        self._name = name
        self._questions = questions

    @property
    def name(self) -> str:
        return self._name

    # --- as a dict ---

    def __getitem__(self, key: Any) -> Coroutine[Any, Any, Any]:
        return self._fetch(key)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._stash.iterate(lambda cursor: self._questions.page_of_keys(self._name, cursor, 1000, None))

    async def get(self, key: Any, default: Any = None) -> Any:
        return await self._stash.get(self._name, key, default)

    async def pop(self, key: Any, default: Any = ABSENT) -> Any:
        """Remove the key and return its value, or ``default`` if one is given."""
        value = await self._stash.pop(self._name, key, ABSENT)
        return present(self._name, key, default if value is ABSENT else value)

    async def popitem(self) -> tuple[Any, Any]:
        """Remove some entry and return its key and value; of several that try, one gets it."""
        cursor: tuple[int, int] | None = None
        while True:
            found, cursor = await self._stash.scan(self._name, cursor, count=1)
            for key, _ in found:
                value = await self._stash.pop(self._name, key, ABSENT)
                if value is not ABSENT:
                    return key, value
            if cursor is None and not found:
                raise StashKeyNotFoundError(self._name, None)

    async def setdefault(
        self, key: Any, default: Any = None, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        return await self._stash.setdefault(self._name, key, default, expires_in=expires_in, idle=idle)

    async def update(self, entries: Any = (), /, **named: Any) -> None:
        """Store all, a thousand in each round trip; cancelling leaves those stored that were."""
        await self._stash.put_many(self._name, pairs_of(entries, named))

    async def keys(self, pattern: str | None = None) -> list[Any]:
        return await self._stash.keys(self._name, pattern)

    async def items(self, pattern: str | None = None) -> list[tuple[Any, Any]]:
        return await self._stash.items(self._name, pattern)

    async def values(self) -> list[Any]:
        return [value for _, value in await self._stash.items(self._name)]

    async def clear(self) -> None:
        """Remove every entry but not the table."""
        await self._stash.clear(self._name)

    def __repr__(self) -> str:
        return f"<AsyncStashTable {self._name!r}>"

    # --- as the handle ---

    async def put(self, key: Any, value: Any, *, expires_in: Span | None = None, idle: Span | None = None) -> int:
        return await self._stash.put(self._name, key, value, expires_in=expires_in, idle=idle)

    async def get_with_version(self, key: Any, default: Any = None) -> tuple[Any, int]:
        return await self._stash.get_with_version(self._name, key, default)

    async def delete(self, key: Any) -> bool:
        """Remove the key; return whether it was there."""
        return await self._stash.delete(self._name, key)

    async def exists(self, key: Any = ABSENT) -> bool:
        return await self._stash.exists(self._name, key)

    async def touch(self, key: Any, expires_in: Span | None = None) -> bool:
        return await self._stash.touch(self._name, key, expires_in)

    async def ttl(self, key: Any) -> float | None:
        return await self._stash.ttl(self._name, key)

    async def incr(self, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None) -> Any:
        return await self._stash.incr(self._name, key, by, expires_in=expires_in, idle=idle)

    async def decr(self, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None) -> Any:
        return await self._stash.decr(self._name, key, by, expires_in=expires_in, idle=idle)

    async def cas(self, key: Any, expected: Any, new: Any, *, expires_in: Span | None = None) -> bool:
        return await self._stash.cas(self._name, key, expected, new, expires_in=expires_in)

    async def put_many(
        self,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        return await self._stash.put_many(self._name, entries, expires_in=expires_in, idle=idle)

    async def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return await self._stash.get_many(self._name, keys)

    async def delete_many(self, keys: Iterable[Any]) -> int:
        return await self._stash.delete_many(self._name, keys)

    async def scan(
        self, cursor: tuple[int, int] | None = None, *, count: int = 1000, pattern: str | None = None
    ) -> Paged[tuple[Any, Any]]:
        return await self._stash.scan(self._name, cursor, count=count, pattern=pattern)

    async def length(self) -> int:
        return await self._stash.length(self._name)

    async def info(self) -> dict[str, Any]:
        return await self._stash.info(self._name)

    async def ensure(self, **rules: Any) -> bool:
        return await self._stash.ensure(self._name, **rules)

    async def push(
        self, key: Any, *items: Any, left: bool = False, expires_in: Span | None = None, idle: Span | None = None
    ) -> int:
        return await self._stash.push(self._name, key, *items, left=left, expires_in=expires_in, idle=idle)

    async def pop_left(self, key: Any, default: Any = None) -> Any:
        return await self._stash.pop_left(self._name, key, default)

    async def pop_right(self, key: Any, default: Any = None) -> Any:
        return await self._stash.pop_right(self._name, key, default)

    async def pop_many(self, key: Any, count: int, *, left: bool = True) -> list[Any]:
        return await self._stash.pop_many(self._name, key, count, left=left)

    async def add(self, key: Any, *members: Any, expires_in: Span | None = None, idle: Span | None = None) -> int:
        return await self._stash.add(self._name, key, *members, expires_in=expires_in, idle=idle)

    async def remove(self, key: Any, *members: Any) -> int:
        return await self._stash.remove(self._name, key, *members)

    async def size(self, key: Any) -> int:
        return await self._stash.size(self._name, key)

    def watch(self, pattern: str | None = None, *, timeout: Span | None = None) -> AsyncWatcher:
        return self._stash.watch(self._name, pattern, timeout=timeout)

    async def _fetch(self, key: Any) -> Any:
        return present(self._name, key, await self._stash.get(self._name, key, ABSENT))
