"""Which port this process uses when nobody names one. Knows the client by its name only: it is a layer above."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dirtybus.protocol.codec import Resolver, loaded_types

if TYPE_CHECKING:
    from dirtybus.stash.op import StashReply
    from dirtybus.stash.ops import StashOp
    from dirtybus.stash.port import AsyncPort, SyncPort

__all__ = ["CURRENT", "CURRENT_ASYNC", "bind", "is_bound", "resolve_here", "unbind"]


@dataclass(frozen=True, slots=True)
class _Binding:
    port: SyncPort
    async_port: AsyncPort | None = None
    resolve: Resolver = loaded_types


_bound: _Binding | None = None


def bind(port: SyncPort, *, async_port: AsyncPort | None = None, resolve: Resolver = loaded_types) -> None:
    """Let the functions of `dirtybus.stash` use ``port`` from now on, in every thread of this process.

    Args:
        port: for the blocking functions.
        async_port: for `dirtybus.stash.aio`; without it, each of its calls waits in a thread on ``port``.
        resolve: finds the classes of values that come back.
    """
    global _bound  # replaced whole, so no thread sees half of it
    _bound = _Binding(port, async_port, resolve)


def unbind(port: SyncPort | None = None) -> None:
    """Forget what was bound: the functions of `dirtybus.stash` use the process's default client again.

    With ``port``, only if it is the one that is bound: who ends does not take away what another has bound since.
    """
    global _bound
    if port is None or (_bound is not None and _bound.port is port):
        _bound = None


def is_bound() -> bool:
    """Whether a port was bound, so that the process's default client is not asked."""
    return _bound is not None


def resolve_here(module: str, qualname: str) -> type:
    """Find a class by the bound resolver."""
    return (_bound.resolve if _bound is not None else loaded_types)(module, qualname)


class _Current:
    """Looks up the port anew for each operation, as it may be bound, or the client replaced, at any time."""

    def ask(self, op: StashOp) -> StashReply:
        return _port().ask(op)

    def begin(self, op: StashOp) -> Callable[[], StashReply]:
        from dirtybus.stash.port import begin_at

        return begin_at(_port(), op)


class _CurrentAsync:
    async def ask(self, op: StashOp) -> StashReply:
        bound = _bound
        if bound is not None and bound.async_port is not None:
            return await bound.async_port.ask(op)
        # not on top: a blocking client must not load asyncio, which gevent's users patch first
        from dirtybus.in_thread import in_thread

        # also off the loop: finding the default client may connect it
        if op.longest_wait_s <= 0:
            return await in_thread(CURRENT.ask, op)
        from concurrent.futures import ThreadPoolExecutor

        # a thread of its own: those who wait for a lock must not keep its holder from a thread to give it back in
        own = ThreadPoolExecutor(1, "dirtybus-wait")
        try:
            return await in_thread(CURRENT.ask, op, executor=own)
        finally:
            own.shutdown(wait=False)


def _port() -> SyncPort:
    bound = _bound
    if bound is not None:
        return bound.port
    port: SyncPort = importlib.import_module("dirtybus.client").default_stash_port()
    return port


CURRENT: Final = _Current()
CURRENT_ASYNC: Final = _CurrentAsync()
