"""Shared state in named tables, kept by the owner of the workers: ``from dirtybus import stash``.

Works alike in apps, listeners and attached clients. Outside of an owner and its workers the functions use the process's
default client, which is told where the owner is by ``DIRTYBUS_SOCKET``::

    stash.put("sessions", "user:1", {"name": "Ada"})
    stash.get("sessions", "user:2", default=None)
    stash.table("sessions")["user:1"]
    await stash.aio.get("sessions", "user:1")      # the same functions for tasks
"""

from __future__ import annotations

from typing import Final

from dirtybus.errors import StashError, StashKeyNotFoundError, StashTableNotFoundError
from dirtybus.stash.current import CURRENT, CURRENT_ASYNC, bind, resolve_here, unbind
from dirtybus.stash.handle import AsyncStash, Stash
from dirtybus.stash.ops import StashOp, StashReply, apply
from dirtybus.stash.port import AsyncLocalPort, AsyncPort, LocalPort, SyncPort
from dirtybus.stash.questions import ABSENT
from dirtybus.stash.table_view import AsyncStashTable, StashTable
from dirtybus.stash.tables import StashTables

__all__ = [
    "ABSENT",
    "AsyncLocalPort",
    "AsyncPort",
    "AsyncStash",
    "AsyncStashTable",
    "LocalPort",
    "Stash",
    "StashError",
    "StashKeyNotFoundError",
    "StashOp",
    "StashReply",
    "StashTable",
    "StashTableNotFoundError",
    "StashTables",
    "SyncPort",
    "aio",
    "apply",
    "bind",
    "clear",
    "delete",
    "delete_table",
    "ensure",
    "exists",
    "get",
    "info",
    "items",
    "keys",
    "length",
    "pop",
    "put",
    "setdefault",
    "table",
    "tables",
    "unbind",
]

_here: Final = Stash(CURRENT, resolve=resolve_here)

#: The functions of `AsyncStash` on the stash of this process.
aio: Final = AsyncStash(CURRENT_ASYNC, resolve=resolve_here)

put = _here.put
get = _here.get
pop = _here.pop
setdefault = _here.setdefault
delete = _here.delete
exists = _here.exists
length = _here.length
keys = _here.keys
items = _here.items
clear = _here.clear
info = _here.info
ensure = _here.ensure
delete_table = _here.delete_table
# hides the module of that name on purpose: users know the function; `from dirtybus.stash.tables import …` still works
tables = _here.tables
table = _here.table
