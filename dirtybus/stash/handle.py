"""What apps, listeners and clients hold: the stash's functions, blocking and async. Knows no table and no socket."""

from __future__ import annotations

from typing import Any, TypeVar

from dirtybus.protocol.codec import Resolver, loaded_types
from dirtybus.stash.port import AsyncPort, SyncPort
from dirtybus.stash.questions import ABSENT, Question, Questions
from dirtybus.stash.table_view import AsyncStashTable, StashTable

__all__ = ["AsyncStash", "Stash"]

T = TypeVar("T")


class Stash:
    """The stash for code that may wait: each function is one round trip to the owner, except `table`, which is none.

    Keys are any hashable value that can be sent; they are the same when they are equal and of the same type, so
    ``None`` is a key and ``1``, ``True`` and ``"1"`` are three. Values are any value that can be sent; what you get is
    your own copy. A missing table is like an empty one, except for `info`.

    Every function raises `StashError` for a key or name that cannot be one, `EncodeError` for a key or value that
    cannot be sent, and what the port raises if the owner cannot be reached.

    Args:
        port: brings operations to the tables.
        resolve: finds the classes of values that come back; by default only among modules already loaded.
    """

    def __init__(self, port: SyncPort, *, resolve: Resolver = loaded_types) -> None:
        self._port = port
        self._questions = Questions(resolve)

    def put(self, table: str, key: Any, value: Any) -> None:
        """Store ``value`` under ``key``, making the table if need be."""
        self._ask(self._questions.put(table, key, value))

    def get(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value, or ``default`` if there is no such key."""
        return self._ask(self._questions.get(table, key, default))

    def pop(self, table: str, key: Any, default: Any = None) -> Any:
        """Remove the key and return its value, or ``default``; of several that try, one gets the value."""
        return self._ask(self._questions.pop(table, key, default))

    def setdefault(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value, storing ``default`` first if there is none; of several that try, one stores."""
        return self._ask(self._questions.setdefault(table, key, default))

    def delete(self, table: str, key: Any) -> bool:
        """Remove the key; return whether it was there."""
        return self._ask(self._questions.delete(table, key))

    def exists(self, table: str, key: Any = ABSENT) -> bool:
        """Whether the table has the key; without a key, whether there is such a table."""
        return self._ask(self._questions.exists(table, key))

    def length(self, table: str) -> int:
        """Return the number of entries; 0 if there is no such table."""
        return self._ask(self._questions.length(table))

    def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        """Return the keys in the order they came; with a glob such as ``"user:*"``, the str keys that match it."""
        return self._ask(self._questions.keys(table, pattern))

    def items(self, table: str) -> list[tuple[Any, Any]]:
        """Return all keys with their values, as they were at one moment."""
        return self._ask(self._questions.items(table))

    def clear(self, table: str) -> int:
        """Remove every entry but not the table; return how many there were."""
        return self._ask(self._questions.clear(table))

    def info(self, table: str) -> dict[str, Any]:
        """Return what is known of the table: ``name``, ``size`` in entries, ``bytes`` of its keys and values.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        return self._ask(self._questions.info(table))

    def ensure(self, table: str) -> bool:
        """Make the table unless it is there; return whether it was made."""
        return self._ask(self._questions.ensure(table))

    def delete_table(self, table: str) -> bool:
        """Remove the table with its entries; return whether there was one."""
        return self._ask(self._questions.delete_table(table))

    def tables(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return self._ask(self._questions.tables())

    def table(self, name: str) -> StashTable:
        """Return a dict-like view of one table, which need not exist yet."""
        return StashTable(self, name)

    def _ask(self, question: Question[T]) -> T:
        return question.read(self._port.ask(question.op))


class AsyncStash:
    """The stash for tasks: the functions of `Stash`, to be awaited. Its contract holds here too.

    A cancelled function was carried out wholly or not at all.
    """

    def __init__(self, port: AsyncPort, *, resolve: Resolver = loaded_types) -> None:
        self._port = port
        self._questions = Questions(resolve)

    async def put(self, table: str, key: Any, value: Any) -> None:
        await self._ask(self._questions.put(table, key, value))

    async def get(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.get(table, key, default))

    async def pop(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.pop(table, key, default))

    async def setdefault(self, table: str, key: Any, default: Any = None) -> Any:
        return await self._ask(self._questions.setdefault(table, key, default))

    async def delete(self, table: str, key: Any) -> bool:
        return await self._ask(self._questions.delete(table, key))

    async def exists(self, table: str, key: Any = ABSENT) -> bool:
        return await self._ask(self._questions.exists(table, key))

    async def length(self, table: str) -> int:
        return await self._ask(self._questions.length(table))

    async def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        return await self._ask(self._questions.keys(table, pattern))

    async def items(self, table: str) -> list[tuple[Any, Any]]:
        return await self._ask(self._questions.items(table))

    async def clear(self, table: str) -> int:
        return await self._ask(self._questions.clear(table))

    async def info(self, table: str) -> dict[str, Any]:
        return await self._ask(self._questions.info(table))

    async def ensure(self, table: str) -> bool:
        return await self._ask(self._questions.ensure(table))

    async def delete_table(self, table: str) -> bool:
        return await self._ask(self._questions.delete_table(table))

    async def tables(self) -> list[str]:
        return await self._ask(self._questions.tables())

    def table(self, name: str) -> AsyncStashTable:
        return AsyncStashTable(self, name)

    async def _ask(self, question: Question[T]) -> T:
        return question.read(await self._port.ask(question.op))
