"""The way from a handle to the tables. Other ports live with their links; here is the one of the owner itself."""

from __future__ import annotations

import threading
from typing import Protocol

from dirtybus.stash.ops import StashOp, StashReply, apply
from dirtybus.stash.tables import StashTables

__all__ = ["AsyncLocalPort", "AsyncPort", "LocalPort", "SyncPort"]


class SyncPort(Protocol):
    """Gets an operation done while the thread waits.

    Raises:
        StashError: the tables refused it.
        DirtyError: it could not be brought to the tables, or its reply not back.
    """

    def ask(self, op: StashOp) -> StashReply: ...


class AsyncPort(Protocol):
    """Gets an operation done while the task waits; a cancelled one was carried out wholly or not at all."""

    async def ask(self, op: StashOp) -> StashReply: ...


class LocalPort:
    """Reaches tables of this process, at once. Every operation on them must come this way: it is safe for threads."""

    def __init__(self, tables: StashTables) -> None:
        self._tables = tables
        self._lock = threading.Lock()

    def ask(self, op: StashOp) -> StashReply:
        with self._lock:
            return apply(self._tables, op)


class AsyncLocalPort:
    """The same for tasks. It never waits, so it cannot be cancelled half-way."""

    def __init__(self, port: LocalPort) -> None:
        self._port = port

    async def ask(self, op: StashOp) -> StashReply:
        return self._port.ask(op)
