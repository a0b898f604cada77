"""Shared state in named tables, kept by the owner of the workers: ``from dirtybus import stash``.

Works alike in apps, listeners and attached clients. Outside of an owner and its workers the functions use the process's
default client, which is told where the owner is by ``DIRTYBUS_SOCKET``::

    stash.put("sessions", "user:1", {"name": "Ada"})
    stash.get("sessions", "user:2", default=None)
    stash.table("sessions")["user:1"]
    await stash.aio.get("sessions", "user:1")      # the same functions for tasks
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from dirtybus.errors import (
    LeaseHeld,
    LeaseLost,
    StashConflict,
    StashError,
    StashFull,
    StashKeyNotFoundError,
    StashTableNotFoundError,
)
from dirtybus.stash.current import CURRENT, CURRENT_ASYNC, bind, resolve_here, unbind

if TYPE_CHECKING:
    from dirtybus.stash.async_handle import AsyncStash
    from dirtybus.stash.async_lease import AsyncLease
    from dirtybus.stash.async_table_view import AsyncStashTable
    from dirtybus.stash.handle import Stash
    from dirtybus.stash.op import StashReply
    from dirtybus.stash.ops import StashOp
    from dirtybus.stash.port import AsyncLocalPort, AsyncPort, LocalPort, SyncPort
    from dirtybus.stash.questions import ABSENT
    from dirtybus.stash.sync_lease import Lease
    from dirtybus.stash.table_view import StashTable
    from dirtybus.stash.transactions import AsyncTransaction, Transaction
    from dirtybus.stash.watchers import StashChange

    _here: Final = Stash(CURRENT, resolve=resolve_here)
    #: The functions of `AsyncStash` on the stash of this process.
    aio: Final = AsyncStash(CURRENT_ASYNC, resolve=resolve_here)

    put = _here.put
    get = _here.get
    get_with_version = _here.get_with_version
    pop = _here.pop
    setdefault = _here.setdefault
    delete = _here.delete
    exists = _here.exists
    touch = _here.touch
    ttl = _here.ttl
    incr = _here.incr
    decr = _here.decr
    cas = _here.cas
    put_many = _here.put_many
    update = _here.put_many
    get_many = _here.get_many
    delete_many = _here.delete_many
    keys = _here.keys
    items = _here.items
    scan = _here.scan
    length = _here.length
    clear = _here.clear
    info = _here.info
    ensure = _here.ensure
    delete_table = _here.delete_table
    tables = _here.tables
    table = _here.table
    push = _here.push
    pop_left = _here.pop_left
    pop_right = _here.pop_right
    pop_many = _here.pop_many
    add = _here.add
    remove = _here.remove
    size = _here.size
    lease = _here.lease
    lock = _here.lock
    semaphore = _here.semaphore
    once = _here.once
    lease_info = _here.lease_info
    transaction = _here.transaction
    transact = _here.transact
    export = _here.export
    import_lines = _here.import_lines
    watch = _here.watch

__all__ = [
    "ABSENT",
    "AsyncLease",
    "AsyncLocalPort",
    "AsyncPort",
    "AsyncStash",
    "AsyncStashTable",
    "AsyncTransaction",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "LocalPort",
    "Stash",
    "StashChange",
    "StashConflict",
    "StashError",
    "StashFull",
    "StashKeyNotFoundError",
    "StashOp",
    "StashReply",
    "StashTable",
    "StashTableNotFoundError",
    "SyncPort",
    "Transaction",
    "add",
    "aio",
    "bind",
    "cas",
    "clear",
    "decr",
    "delete",
    "delete_many",
    "delete_table",
    "ensure",
    "exists",
    "export",
    "get",
    "get_many",
    "get_with_version",
    "import_lines",
    "incr",
    "info",
    "items",
    "keys",
    "lease",
    "lease_info",
    "length",
    "lock",
    "once",
    "pop",
    "pop_left",
    "pop_many",
    "pop_right",
    "push",
    "put",
    "put_many",
    "remove",
    "scan",
    "semaphore",
    "setdefault",
    "size",
    "table",
    "tables",
    "touch",
    "transact",
    "transaction",
    "ttl",
    "unbind",
    "update",
    "watch",
]

#: where the classes are; what else is offered are the functions of the two handles
_HOMES: Final = {
    "ABSENT": "questions",
    "AsyncLease": "async_lease",
    "AsyncLocalPort": "port",
    "AsyncPort": "port",
    "AsyncStash": "async_handle",
    "AsyncStashTable": "async_table_view",
    "AsyncTransaction": "transactions",
    "Lease": "sync_lease",
    "LocalPort": "port",
    "Stash": "handle",
    "StashChange": "watchers",
    "StashOp": "ops",
    "StashReply": "op",
    "StashTable": "table_view",
    "SyncPort": "port",
    "Transaction": "transactions",
}


def __getattr__(name: str) -> Any:
    """Load the handle when the first of its functions is asked for: most workers never do, and it costs their start."""
    if name in _HOMES:
        found = getattr(importlib.import_module(f"dirtybus.stash.{_HOMES[name]}"), name)
    elif name == "aio":
        from dirtybus.stash.async_handle import AsyncStash

        found = AsyncStash(CURRENT_ASYNC, resolve=resolve_here)
    elif name == "_here":
        from dirtybus.stash.handle import Stash

        found = Stash(CURRENT, resolve=resolve_here)
    elif name in __all__:
        found = getattr(globals().get("_here") or __getattr__("_here"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # two threads may both come here: whichever is first decides for both
    return globals().setdefault(name, found)
