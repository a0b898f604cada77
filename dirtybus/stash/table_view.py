"""One table as a mapping. Holds no entry: every look is a question to the handle it came from."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Self

from dirtybus.errors import StashKeyNotFoundError
from dirtybus.stash.glob import compile_glob
from dirtybus.stash.key import key_bytes
from dirtybus.stash.questions import ABSENT, Paged, Questions
from dirtybus.stash.spans import Span

if TYPE_CHECKING:
    from dirtybus.stash.handle import Stash
    from dirtybus.stash.watchers import Watcher

__all__ = ["StashTable", "pairs_of", "present"]


class StashTable(MutableMapping[Any, Any]):
    """A dict-like view of one stash table; two views of the same table show the same entries.

    Unlike a dict it keeps keys apart that are equal but of other types, it hands out copies (so change a value by
    storing it again), and others change it at any time. The functions of `Stash` are here by the same names, without
    the table. Each operation is one round trip, also ``pop`` and ``setdefault``; ``popitem`` takes two, and one more
    for each entry that somebody else took first. ``update`` and loops over keys, items or values take one for each
    thousand entries; ``list`` of these asks for the length besides, and ``dict(table)`` asks for each key, so write
    ``dict(table.items())``. Up to a thousand entries, a loop goes over them as they were at its start; beyond, as
    `Stash.scan` does.

    Raises:
        StashKeyNotFoundError: (a `KeyError`) from ``[]``, ``del``, ``pop`` and ``popitem`` when there is no such key.
    """

    def __init__(self, stash: Stash, name: str, questions: Questions) -> None:
        self._stash = stash
        self._name = name
        self._questions = questions

    @property
    def name(self) -> str:
        return self._name

    # --- as a dict ---

    def __getitem__(self, key: Any) -> Any:
        return present(self._name, key, self._stash.get(self._name, key, ABSENT))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._stash.put(self._name, key, value)

    def __delitem__(self, key: Any) -> None:
        if not self._stash.delete(self._name, key):
            raise StashKeyNotFoundError(self._name, key)

    def __contains__(self, key: object) -> bool:
        return self._stash.exists(self._name, key)

    def __iter__(self) -> Iterator[Any]:
        return self.each_key()

    def __len__(self) -> int:
        return self._stash.length(self._name)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same; two tables hold the same if their keys are of the same types, too."""
        if not isinstance(other, Mapping):
            return NotImplemented
        mine = list(iter(self.items()))  # an iterator is not asked for its length
        if isinstance(other, StashTable):
            return {key_bytes(key): value for key, value in mine} == {
                key_bytes(key): value for key, value in other.items()
            }
        # 1 and True are two keys here, and would be one in a dict
        return len(mine) == len(other) and dict(mine) == dict(other.items())

    __hash__ = None  # type: ignore[assignment] # as with a dict

    def __ior__(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> Self:
        self.update(entries)
        return self

    def get(self, key: Any, default: Any = None) -> Any:
        return self._stash.get(self._name, key, default)

    def pop(self, key: Any, default: Any = ABSENT) -> Any:
        """Remove the key and return its value, or ``default`` if one is given."""
        value = self._stash.pop(self._name, key, ABSENT)
        return present(self._name, key, default if value is ABSENT else value)

    def popitem(self) -> tuple[Any, Any]:
        """Remove some entry and return its key and value; of several that try, one gets it."""
        cursor: tuple[int, int] | None = None
        while True:
            found, cursor = self._stash.scan(self._name, cursor, count=1)
            for key, _ in found:
                value = self._stash.pop(self._name, key, ABSENT)
                if value is not ABSENT:
                    return key, value
            if cursor is None and not found:
                raise StashKeyNotFoundError(self._name, None)

    def setdefault(
        self, key: Any, default: Any = None, *, expires_in: Span | None = None, idle: Span | None = None
    ) -> Any:
        return self._stash.setdefault(self._name, key, default, expires_in=expires_in, idle=idle)

    def update(self, entries: Any = (), /, **named: Any) -> None:
        """Store all entries of a mapping, or pairs, and the named ones, a thousand in each round trip."""
        self._stash.put_many(self._name, pairs_of(entries, named))

    def keys(self, pattern: str | None = None) -> KeysView[Any]:
        """Return a view of the keys; with a glob such as ``"user:*"``, of the str keys that match it."""
        return _Keys(self, pattern)

    def items(self, pattern: str | None = None) -> ItemsView[Any, Any]:
        """Return a view of keys and values; ``pattern`` is as with `keys`."""
        return _Items(self, pattern)

    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def clear(self) -> None:
        """Remove every entry but not the table."""
        self._stash.clear(self._name)

    def __repr__(self) -> str:
        """Show the name only: a repr must not go to the owner."""
        return f"<StashTable {self._name!r}>"

    # --- as the handle ---

    def put(self, key: Any, value: Any, *, expires_in: Span | None = None, idle: Span | None = None) -> int:
        return self._stash.put(self._name, key, value, expires_in=expires_in, idle=idle)

    def get_with_version(self, key: Any, default: Any = None) -> tuple[Any, int]:
        return self._stash.get_with_version(self._name, key, default)

    def delete(self, key: Any) -> bool:
        """Remove the key; return whether it was there."""
        return self._stash.delete(self._name, key)

    def exists(self, key: Any = ABSENT) -> bool:
        return self._stash.exists(self._name, key)

    def touch(self, key: Any, expires_in: Span | None = None) -> bool:
        return self._stash.touch(self._name, key, expires_in)

    def ttl(self, key: Any) -> float | None:
        return self._stash.ttl(self._name, key)

    def incr(self, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None) -> Any:
        return self._stash.incr(self._name, key, by, expires_in=expires_in, idle=idle)

    def decr(self, key: Any, by: float = 1, *, expires_in: Span | None = None, idle: Span | None = None) -> Any:
        return self._stash.decr(self._name, key, by, expires_in=expires_in, idle=idle)

    def cas(self, key: Any, expected: Any, new: Any, *, expires_in: Span | None = None) -> bool:
        return self._stash.cas(self._name, key, expected, new, expires_in=expires_in)

    def put_many(
        self,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        expires_in: Span | None = None,
        idle: Span | None = None,
    ) -> int:
        return self._stash.put_many(self._name, entries, expires_in=expires_in, idle=idle)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        return self._stash.get_many(self._name, keys)

    def delete_many(self, keys: Iterable[Any]) -> int:
        return self._stash.delete_many(self._name, keys)

    def scan(
        self, cursor: tuple[int, int] | None = None, *, count: int = 1000, pattern: str | None = None
    ) -> Paged[tuple[Any, Any]]:
        return self._stash.scan(self._name, cursor, count=count, pattern=pattern)

    def length(self) -> int:
        return self._stash.length(self._name)

    def info(self) -> dict[str, Any]:
        return self._stash.info(self._name)

    def ensure(self, **rules: Any) -> bool:
        return self._stash.ensure(self._name, **rules)

    def push(
        self, key: Any, *items: Any, left: bool = False, expires_in: Span | None = None, idle: Span | None = None
    ) -> int:
        return self._stash.push(self._name, key, *items, left=left, expires_in=expires_in, idle=idle)

    def pop_left(self, key: Any, default: Any = None) -> Any:
        return self._stash.pop_left(self._name, key, default)

    def pop_right(self, key: Any, default: Any = None) -> Any:
        return self._stash.pop_right(self._name, key, default)

    def pop_many(self, key: Any, count: int, *, left: bool = True) -> list[Any]:
        return self._stash.pop_many(self._name, key, count, left=left)

    def add(self, key: Any, *members: Any, expires_in: Span | None = None, idle: Span | None = None) -> int:
        return self._stash.add(self._name, key, *members, expires_in=expires_in, idle=idle)

    def remove(self, key: Any, *members: Any) -> int:
        return self._stash.remove(self._name, key, *members)

    def size(self, key: Any) -> int:
        return self._stash.size(self._name, key)

    def watch(self, pattern: str | None = None, *, timeout: Span | None = None) -> Watcher:
        return self._stash.watch(self._name, pattern, timeout=timeout)

    # --- for the views ---

    def each_key(self, pattern: str | None = None) -> Iterator[Any]:
        """Give the keys, a thousand in each round trip."""
        return self._stash.iterate(lambda cursor: self._questions.page_of_keys(self._name, cursor, 1000, pattern))

    def each_item(self, pattern: str | None = None) -> Iterator[tuple[Any, Any]]:
        """Give the keys with their values, a thousand in each round trip."""
        return self._stash.iterate(lambda cursor: self._questions.page(self._name, cursor, 1000, pattern))


def present(table: str, key: Any, value: Any) -> Any:
    """Return the value.

    Raises:
        StashKeyNotFoundError: it is absent.
    """
    if value is ABSENT:
        raise StashKeyNotFoundError(table, key)
    return value


def pairs_of(entries: Any, named: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Give what ``update`` was given as pairs, in its order: in a dict, 1 and True would be one key."""
    if isinstance(entries, Mapping):
        yield from entries.items()
    elif hasattr(entries, "keys"):
        for key in entries.keys():  # noqa: SIM118 - all that is known of it is that it has keys
            yield key, entries[key]
    else:
        yield from entries
    yield from named.items()


class _Keys(KeysView[Any]):
    _mapping: StashTable

    def __init__(self, table: StashTable, pattern: str | None) -> None:
        super().__init__(table)
        self._pattern = pattern

    def __iter__(self) -> Iterator[Any]:
        return self._mapping.each_key(self._pattern)

    def __len__(self) -> int:
        return len(self._mapping) if self._pattern is None else sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return _matches(self._pattern, key) and key in self._mapping


class _Items(ItemsView[Any, Any]):
    _mapping: StashTable

    def __init__(self, table: StashTable, pattern: str | None) -> None:
        super().__init__(table)
        self._pattern = pattern

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.each_item(self._pattern)

    def __len__(self) -> int:
        return len(self._mapping) if self._pattern is None else sum(1 for _ in self._mapping.each_key(self._pattern))

    def __contains__(self, item: object) -> bool:
        return (
            isinstance(item, tuple)
            and len(item) == 2
            and _matches(self._pattern, item[0])
            and super().__contains__(item)
        )


class _Values(ValuesView[Any]):
    _mapping: StashTable

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.each_item())

    def __contains__(self, value: object) -> bool:
        return any(mine is value or mine == value for mine in self)


def _matches(pattern: str | None, key: object) -> bool:
    return pattern is None or (isinstance(key, str) and compile_glob(pattern).fullmatch(key) is not None)
