"""What somebody sees who watches a table: its changes, one after the other. Knows no table; it asks, and waits."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from dirtybus.errors import DirtyError
from dirtybus.protocol.codec import Resolver, decode_body
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_watch import Watch
from dirtybus.stash.port import AsyncPort, SyncPort
from dirtybus.stash.spans import Span, seconds

__all__ = ["AsyncWatcher", "StashChange", "Watcher", "key_or_none"]

#: So long one question waits at the owner; then it is asked anew.
_POLL_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class StashChange:
    """One change of a table.

    Attributes:
        table: its name.
        kind: ``put``, ``deleted``, ``expired`` or ``evicted``; ``cleared`` or ``dropped`` of a whole table; or ``gap``:
            changes were missed here, as the watcher was too slow, or the owner was started anew.
        key: whose it is; None of a whole table, and of a key whose class is not loaded here.
        key_bytes: the key as it is stored; None of a whole table.
        version: the entry's version since; versions only grow.
        lost: of a gap, how many changes were missed; None: unknown.
    """

    table: str
    kind: str
    key: Any = None
    key_bytes: bytes | None = None
    version: int = 0
    lost: int | None = None


def key_or_none(key: bytes | None, resolve: Resolver) -> Any:
    """Return a key as its owner gave it; None if its class is not to be had here."""
    try:
        return None if key is None else decode_body(key, resolve=resolve)
    except DirtyError:
        return None


class _Place:
    """How far a watcher has come, and what it has not given out yet."""

    def __init__(self, table: str, pattern: str | None, resolve: Resolver) -> None:
        self._table = table
        self._pattern = pattern
        self._resolve = resolve
        self._cursor: tuple[int, int] | None = None
        self._changes: deque[StashChange] = deque()

    def question(self, wait_s: float) -> Watch:
        return Watch(self._table, self._pattern, self._cursor, 0.0 if self._cursor is None else wait_s)

    def take(self, reply: StashReply) -> None:
        if not reply.is_true and self._cursor is not None:
            self._changes.append(StashChange(self._table, "gap", lost=reply.count or None))
        for change in reply.changes:
            key = key_or_none(change.key, self._resolve)
            self._changes.append(StashChange(self._table, change.kind, key, change.key, change.version))
        self._cursor = reply.cursor

    def pop(self) -> StashChange | None:
        return self._changes.popleft() if self._changes else None


class Watcher(Iterator[StashChange]):
    """The changes of a table since the watcher was made; made by `Stash.watch`.

    It holds nothing: whoever stops asking is forgotten by the owner after two minutes. An error that comes up, such as
    `DirtyConnectionError`, leaves its place: go on with `next`, and what was missed meanwhile is a gap.
    """

    def __init__(
        self, port: SyncPort, table: str, pattern: str | None, timeout: Span | None, resolve: Resolver
    ) -> None:
        self._port = port
        self._place = _Place(table, pattern, resolve)
        self._timeout_s = math.inf if timeout is None else seconds(timeout, "timeout")
        self._place.take(port.ask(self._place.question(0)))

    def __next__(self) -> StashChange:
        until = time.monotonic() + self._timeout_s
        while (change := self._place.pop()) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise StopIteration
            self._place.take(self._port.ask(self._place.question(min(left_s, _POLL_S))))
        return change


class AsyncWatcher:
    """`Watcher` for tasks: ``async for``, which begins to watch at its first step, or ``async with``, at its begin."""

    def __init__(
        self, port: AsyncPort, table: str, pattern: str | None, timeout: Span | None, resolve: Resolver
    ) -> None:
        self._port = port
        self._place = _Place(table, pattern, resolve)
        self._timeout_s = math.inf if timeout is None else seconds(timeout, "timeout")
        self._has_begun = False

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held, so there is nothing to give back."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StashChange:
        await self._begin()
        until = time.monotonic() + self._timeout_s
        while (change := self._place.pop()) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise StopAsyncIteration
            self._place.take(await self._port.ask(self._place.question(min(left_s, _POLL_S))))
        return change

    async def _begin(self) -> None:
        if not self._has_begun:
            self._place.take(await self._port.ask(self._place.question(0)))
            self._has_begun = True
