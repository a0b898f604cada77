"""The stash of one of gunicorn's arbiters, by the functions of our own. Repairs what its answers leave out."""

from __future__ import annotations

from typing import Any, Final

from dirtybus.compat.gunicorn.gd1_caller import Gd1Caller
from dirtybus.compat.gunicorn.limits import Limits
from dirtybus.errors import DirtyError, StashKeyNotFoundError, StashTableNotFoundError
from dirtybus.protocol.gd1_messages import StashAsk, StashVerb
from dirtybus.stash import ABSENT

__all__ = ["Gd1Stash"]

_UNTYPED: Final = "error"  # the code of an error whose class did not travel


class Gd1Stash:
    """Each function is one round trip, except `items`, which takes one for each key.

    Args:
        caller: reaches the arbiter.
        timeout_s: how long one round trip may take.
    """

    def __init__(self, caller: Gd1Caller, timeout_s: float | None) -> None:
        self._caller = caller
        self._limits = Limits(timeout_s)

    def put(self, table: str, key: Any, value: Any) -> None:
        self._ask(StashVerb.PUT, table, key, value)

    def get(self, table: str, key: Any, default: Any = None) -> Any:
        try:
            return self._ask(StashVerb.GET, table, key)
        except StashKeyNotFoundError:
            return default
        except DirtyError as exc:
            # gunicorn 27 sends a missing key as a plain DirtyError, known by its text alone
            if exc.code == _UNTYPED and exc.message == f"Key not found: {key}":
                return default
            raise

    def delete(self, table: str, key: Any) -> bool:
        return bool(self._ask(StashVerb.DELETE, table, key))

    def exists(self, table: str, key: Any = ABSENT) -> bool:
        return bool(self._ask(StashVerb.EXISTS, table, None if key is ABSENT else key))

    def length(self, table: str) -> int:
        return int(self.info(table)["size"]) if self.exists(table) else 0

    def keys(self, table: str, pattern: str | None = None) -> list[Any]:
        keys: list[Any] = self._ask(StashVerb.KEYS, table, pattern=pattern)
        return keys

    def items(self, table: str) -> list[tuple[Any, Any]]:
        found = ((key, self.get(table, key, ABSENT)) for key in self.keys(table))
        return [(key, value) for key, value in found if value is not ABSENT]

    def clear(self, table: str) -> None:
        self._ask(StashVerb.CLEAR, table)

    def info(self, table: str) -> dict[str, Any]:
        try:
            info: dict[str, Any] = self._ask(StashVerb.INFO, table)
        except DirtyError as exc:
            if exc.code == _UNTYPED and exc.message == f"Table not found: {table}":
                raise StashTableNotFoundError(table) from None
            raise
        return info

    def ensure(self, table: str) -> None:
        self._ask(StashVerb.ENSURE, table)

    def delete_table(self, table: str) -> bool:
        return bool(self._ask(StashVerb.DELETE_TABLE, table))

    def tables(self) -> list[str]:
        names: list[str] = self._ask(StashVerb.TABLES, "")
        return names

    def _ask(self, verb: StashVerb, table: str, key: Any = None, value: Any = None, pattern: str | None = None) -> Any:
        return self._caller.result(StashAsk(verb, table, key, value, pattern), self._limits)
