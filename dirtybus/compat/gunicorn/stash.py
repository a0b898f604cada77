"""`gunicorn.dirty.stash`: the same functions, client and table, in apps, listeners and attached processes.

Where the stash of this process is bound (in workers and in their owner) the functions use it; elsewhere they go to the
arbiter at the socket path, ours or gunicorn's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self, TypeVar

from dirtybus.compat.gunicorn.roads import StashFunctions, leave, road_to
from dirtybus.errors import DirtyError, StashError, StashKeyNotFoundError, StashTableNotFoundError
from dirtybus.stash import ABSENT, Stash, current

__all__ = [
    "StashClient",
    "StashError",
    "StashKeyNotFoundError",
    "StashTable",
    "StashTableNotFoundError",
    "clear",
    "delete",
    "delete_table",
    "ensure",
    "exists",
    "get",
    "get_stash_socket_path",
    "info",
    "keys",
    "put",
    "set_stash_socket_path",
    "table",
    "tables",
]

T = TypeVar("T")


class StashClient:
    """The stash of the arbiter at ``socket_path``, from any thread; each function is one round trip.

    Whatever goes wrong is a `StashError`.

    Args:
        socket_path: the arbiter's Unix socket.
        timeout: how long a round trip may take in seconds.
    """

    def __init__(self, socket_path: str, timeout: float | None = 30.0) -> None:
        self.socket_path = socket_path
        self.timeout = timeout

    def put(self, table: str, key: Any, value: Any) -> None:
        """Store ``value``, making the table if need be."""
        self._ask(lambda stash: stash.put(table, key, value))

    def get(self, table: str, key: Any, default: Any = None) -> Any:
        """Return the value, or ``default`` if there is no such key or table."""
        return self._ask(lambda stash: stash.get(table, key, default))

    def delete(self, table: str, key: Any) -> bool:
        """Remove the key; return whether it was there."""
        return self._ask(lambda stash: stash.delete(table, key))

    def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        """Return the keys; with a glob such as ``"user:*"``, those that match it."""
        return self._ask(lambda stash: stash.keys(table, pattern or None))

    def clear(self, table: str) -> None:
        """Remove every entry but not the table."""
        self._ask(lambda stash: stash.clear(table))

    def info(self, table: str) -> dict[str, Any]:
        """Return what is known of the table: ``size``, ``table`` and perhaps more.

        Raises:
            StashTableNotFoundError: there is no such table.
        """
        return self._ask(lambda stash: stash.info(table))

    def ensure(self, table: str) -> None:
        """Make the table unless it is there."""
        self._ask(lambda stash: stash.ensure(table))

    def exists(self, table: str, key: Any = None) -> bool:
        """Whether the table has the key; without a key, whether there is such a table."""
        return self._ask(lambda stash: stash.exists(table, ABSENT if key is None else key))

    def delete_table(self, table: str) -> None:
        """Remove the table with its entries."""
        self._ask(lambda stash: stash.delete_table(table))

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        return self._ask(lambda stash: stash.tables())

    def items(self, table: str) -> list[tuple[Any, Any]]:
        """Return all keys with their values."""
        return self._ask(lambda stash: stash.items(table))

    def length(self, table: str) -> int:
        """Return the number of entries; 0 if there is no such table."""
        return self._ask(lambda stash: stash.length(table))

    def table(self, name: str) -> StashTable:
        """Return a dict-like view of one table, which need not exist yet."""
        return StashTable(self, name)

    def close(self) -> None:
        """Note that it is needed no more; the last client at a path hangs up. It may be used again."""
        road = leave(self.socket_path, self)
        if road is not None:
            road.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _functions(self) -> StashFunctions:
        try:
            return road_to(self.socket_path, self, self.timeout).stash(self.timeout)
        except DirtyError as exc:
            raise StashError(f"Failed to connect to arbiter: {exc}") from exc

    def _ask(self, ask: Callable[[StashFunctions], T]) -> T:
        functions = self._functions()
        try:
            return ask(functions)
        except StashError:
            raise
        except DirtyError as exc:
            raise StashError(f"Stash operation failed: {exc}") from exc


class StashTable:
    """One table with a dict's manners; ``[]`` and ``del`` raise `StashKeyNotFoundError`, which is a `KeyError`."""

    def __init__(self, client: StashClient, name: str) -> None:
        self._client = client
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def __getitem__(self, key: Any) -> Any:
        value = self._client.get(self._name, key, ABSENT)
        if value is ABSENT:
            raise StashKeyNotFoundError(self._name, key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._client.put(self._name, key, value)

    def __delitem__(self, key: Any) -> None:
        if not self._client.delete(self._name, key):
            raise StashKeyNotFoundError(self._name, key)

    def __contains__(self, key: object) -> bool:
        return self._client.exists(self._name, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._client.keys(self._name))

    def __len__(self) -> int:
        return self._client.length(self._name)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or ``default`` if there is no such key."""
        return self._client.get(self._name, key, default)

    def keys(self, pattern: str | None = None) -> list[Any]:
        """Return the keys; with a glob, those that match it."""
        return self._client.keys(self._name, pattern)

    def clear(self) -> None:
        """Remove every entry but not the table."""
        self._client.clear(self._name)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield all keys with their values."""
        yield from self._client.items(self._name)

    def values(self) -> Iterator[Any]:
        """Yield all values."""
        return (value for _, value in self.items())


# --- the stash of this process ------------------------------------------------------------------------------------

_VARIABLES: Final = ("DIRTYBUS_SOCKET", "GUNICORN_DIRTY_SOCKET")
_of_thread = threading.local()
_socket_path: str | None = None


class _BoundClient(StashClient):
    """The stash that workers and their owner are bound to. There is no socket in between, or it is the worker's own."""

    def __init__(self) -> None:
        super().__init__("")

    def _functions(self) -> StashFunctions:
        return _BOUND_STASH


_BOUND_STASH: Final = Stash(current.CURRENT, resolve=current.resolve_here)
_BOUND: Final = _BoundClient()


def set_stash_socket_path(path: str | None) -> None:
    """Name the arbiter's socket for this process; None goes back to the environment."""
    global _socket_path
    _socket_path = path


def get_stash_socket_path() -> str:
    """Return the path of the arbiter's socket: what was set, ``DIRTYBUS_SOCKET``, or ``GUNICORN_DIRTY_SOCKET``.

    Raises:
        StashError: none of them is.
    """
    path = _socket_path or next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if path is None:
        raise StashError(
            "Stash socket path not configured. Set DIRTYBUS_SOCKET to the socket of a running arbiter "
            "(dirtybus run module:Class --socket PATH), or call set_stash_socket_path(PATH)"
        )
    return path


def _client() -> StashClient:
    if current.is_bound():
        return _BOUND
    path = get_stash_socket_path()
    client: StashClient | None = getattr(_of_thread, "client", None)
    if client is None or client.socket_path != path:
        client = _of_thread.client = StashClient(path)
    return client


def put(table: str, key: Any, value: Any) -> None:
    """As `StashClient.put`."""
    _client().put(table, key, value)


def get(table: str, key: Any, default: Any = None) -> Any:
    """As `StashClient.get`."""
    return _client().get(table, key, default)


def delete(table: str, key: Any) -> bool:
    """As `StashClient.delete`."""
    return _client().delete(table, key)


def keys(table: str, pattern: str | None = None) -> list[Any]:
    """As `StashClient.keys`."""
    return _client().keys(table, pattern)


def clear(table: str) -> None:
    """As `StashClient.clear`."""
    _client().clear(table)


def info(table: str) -> dict[str, Any]:
    """As `StashClient.info`."""
    return _client().info(table)


def ensure(table: str) -> None:
    """As `StashClient.ensure`."""
    _client().ensure(table)


def exists(table: str, key: Any = None) -> bool:
    """As `StashClient.exists`."""
    return _client().exists(table, key)


def delete_table(table: str) -> None:
    """As `StashClient.delete_table`."""
    _client().delete_table(table)


def tables() -> list[str]:
    """As `StashClient.tables`."""
    return _client().tables()


def table(name: str) -> StashTable:
    """As `StashClient.table`."""
    return _client().table(name)
