"""One table as a mapping. Holds no entry: every look is a question to the handle it came from."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import TYPE_CHECKING, Any

from dirtybus.errors import StashKeyNotFoundError
from dirtybus.stash.questions import ABSENT

if TYPE_CHECKING:
    from dirtybus.stash.async_handle import AsyncStash
    from dirtybus.stash.handle import Stash

__all__ = ["AsyncStashTable", "StashTable"]


class StashTable(MutableMapping[Any, Any]):
    """A dict-like view of one stash table; two views of the same table show the same entries.

    Unlike a dict it keeps keys apart that are equal but of other types, it hands out copies (so change a value by
    storing it again), and others change it at any time: an iteration goes over the entries as they were at its start.
    Each operation is one round trip, also ``pop``, ``setdefault`` and a loop over keys, items or values. ``list`` of
    these asks for the length besides, ``popitem`` takes three, ``update`` and ``dict(table)`` one for each key, so
    write ``dict(table.items())``.

    Raises:
        StashKeyNotFoundError: (a `KeyError`) from ``[]``, ``del`` and ``pop`` when there is no such key.
    """

    def __init__(self, stash: Stash, name: str) -> None:
        self._stash = stash
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, key: Any) -> Any:
        return _present(self._name, key, self._stash.get(self._name, key, ABSENT))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._stash.put(self._name, key, value)

    def __delitem__(self, key: Any) -> None:
        if not self._stash.delete(self._name, key):
            raise StashKeyNotFoundError(self._name, key)

    def __contains__(self, key: object) -> bool:
        return self._stash.exists(self._name, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stash.keys(self._name))

    def __len__(self) -> int:
        return self._stash.length(self._name)

    def get(self, key: Any, default: Any = None) -> Any:
        return self._stash.get(self._name, key, default)

    def pop(self, key: Any, default: Any = ABSENT) -> Any:
        """Remove the key and return its value, or ``default`` if one is given."""
        value = self._stash.pop(self._name, key, ABSENT)
        return _present(self._name, key, default if value is ABSENT else value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return self._stash.setdefault(self._name, key, default)

    def keys(self, pattern: str | None = None) -> KeysView[Any]:
        """Return a view of the keys; with a glob such as ``"user:*"``, of the str keys that match it."""
        return KeysView(self) if pattern is None else _MatchingKeys(self, lambda: self._stash.keys(self._name, pattern))

    def items(self) -> ItemsView[Any, Any]:
        return _Items(self, lambda: self._stash.items(self._name))

    def values(self) -> ValuesView[Any]:
        return _Values(self, lambda: self._stash.items(self._name))

    def clear(self) -> None:
        """Remove every entry but not the table."""
        self._stash.clear(self._name)

    def __repr__(self) -> str:
        """Show the name only: a repr must not go to the owner."""
        return f"<StashTable {self._name!r}>"


class AsyncStashTable:
    """`StashTable` for tasks: the same entries and the same errors, each operation to be awaited.

    ``await table[key]`` reads as ``[]`` does, ``async for key in table`` goes over the keys as they were at its start.
    """

    def __init__(self, stash: AsyncStash, name: str) -> None:
        self._stash = stash
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, key: Any) -> Coroutine[Any, Any, Any]:
        return self._fetch(key)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for key in await self._stash.keys(self._name):
            yield key

    async def get(self, key: Any, default: Any = None) -> Any:
        return await self._stash.get(self._name, key, default)

    async def put(self, key: Any, value: Any) -> None:
        await self._stash.put(self._name, key, value)

    async def delete(self, key: Any) -> None:
        """Remove the key.

        Raises:
            StashKeyNotFoundError: there is no such key.
        """
        if not await self._stash.delete(self._name, key):
            raise StashKeyNotFoundError(self._name, key)

    async def exists(self, key: Any) -> bool:
        return await self._stash.exists(self._name, key)

    async def length(self) -> int:
        return await self._stash.length(self._name)

    async def keys(self, pattern: str | None = None) -> list[Any]:
        return await self._stash.keys(self._name, pattern)

    async def items(self) -> list[tuple[Any, Any]]:
        return await self._stash.items(self._name)

    async def values(self) -> list[Any]:
        return [value for _, value in await self._stash.items(self._name)]

    async def pop(self, key: Any, default: Any = ABSENT) -> Any:
        """Remove the key and return its value, or ``default`` if one is given."""
        value = await self._stash.pop(self._name, key, ABSENT)
        return _present(self._name, key, default if value is ABSENT else value)

    async def setdefault(self, key: Any, default: Any = None) -> Any:
        return await self._stash.setdefault(self._name, key, default)

    async def update(self, entries: Mapping[Any, Any]) -> None:
        """Store each entry, one round trip after the other; cancelling leaves those stored that were."""
        for key, value in entries.items():
            await self.put(key, value)

    async def clear(self) -> None:
        """Remove every entry but not the table."""
        await self._stash.clear(self._name)

    def __repr__(self) -> str:
        return f"<AsyncStashTable {self._name!r}>"

    async def _fetch(self, key: Any) -> Any:
        return _present(self._name, key, await self._stash.get(self._name, key, ABSENT))


def _present(table: str, key: Any, value: Any) -> Any:
    if value is ABSENT:
        raise StashKeyNotFoundError(table, key)
    return value


# --- what keys(), items() and values() return: a look at the whole table takes one round trip, not one for each key --


class _MatchingKeys(KeysView[Any]):
    def __init__(self, table: StashTable, fetch: Callable[[], list[str]]) -> None:
        super().__init__(table)
        self._fetch = fetch

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fetch())

    def __len__(self) -> int:
        return len(self._fetch())

    def __contains__(self, key: object) -> bool:
        return key in self._fetch()


class _Items(ItemsView[Any, Any]):
    def __init__(self, table: StashTable, fetch: Callable[[], list[tuple[Any, Any]]]) -> None:
        super().__init__(table)
        self._fetch = fetch

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._fetch())


class _Values(ValuesView[Any]):
    def __init__(self, table: StashTable, fetch: Callable[[], list[tuple[Any, Any]]]) -> None:
        super().__init__(table)
        self._fetch = fetch

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._fetch())

    def __contains__(self, value: object) -> bool:
        return any(mine is value or mine == value for mine in self)
