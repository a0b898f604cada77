"""A lease in the hands of a task. Knows no table; asyncio is loaded by whoever runs a task."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dirtybus.errors import DirtyError
from dirtybus.stash.grip import Grip, Terms, new_token
from dirtybus.stash.holding import Holding
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_leases import Release, Renew
from dirtybus.stash.port import AsyncPort

if TYPE_CHECKING:
    import asyncio

__all__ = ["AsyncLease"]

#: How long a cancelled task stays to give back what it may have been given.
_GIVE_BACK_S = 5.0


class AsyncLease(Holding):
    """`Lease` for tasks: ``async with``, or ``await`` `acquire`, `renew` and `release`.

    A cancelled `acquire` leaves neither a lease nor a place in the queue behind. With ``cancel_on_lost`` the task
    inside the block is cancelled when the lease is lost, and the block raises `LeaseLost`.
    """

    def __init__(
        self,
        port: AsyncPort,
        terms: Terms,
        on_lost: Callable[[], object] | None = None,
        *,
        cancel_on_lost: bool = False,
    ) -> None:
        super().__init__(terms, on_lost)
        self._port = port
        self._cancels = cancel_on_lost
        self._watch: asyncio.Task[None] | None = None
        self._holder: asyncio.Task[Any] | None = None
        self._in_block = False
        self._cancelling = 0
        self._was_cancelled = False

    async def acquire(self) -> Self:
        """Take a place. Raises as `Lease.acquire`."""
        import asyncio

        self._check_free()
        token = new_token()
        try:
            self._grip = await self._acquired(token)
        except BaseException:
            with suppress(DirtyError, TimeoutError):  # then its time ends it
                await _to_the_end(self._release(token))
            raise
        self._holder = asyncio.current_task()
        if self._terms.renews or self._on_lost is not None or self._cancels:
            self._watch = asyncio.create_task(_keep(weakref.ref(self), self._grip, self._port, self._holder))
        return self

    async def renew(self) -> None:
        """Let its time begin anew, now. Raises LeaseLost, and what the port raises."""
        self.check()
        grip, asked_at = self._held(), time.monotonic()
        grip.note(await self._port.ask(Renew(self._terms.name, grip.token, self._terms.ttl_s)), asked_at)
        self.check()

    async def release(self) -> bool:
        """Give it back; return whether it was held until now. Raises what the port raises."""
        grip, self._grip = self._held(), None
        watch, self._watch = self._watch, None
        if not grip.is_ours:
            return False
        was_lost = grip.is_lost
        return await _to_the_end(self._end(watch, grip.token)) and not was_lost

    async def __aenter__(self) -> Self:
        import asyncio

        task = asyncio.current_task()
        self._cancelling = 0 if task is None else task.cancelling()
        self._was_cancelled = False
        self._in_block = True
        try:
            return await self.acquire()
        except BaseException:
            self._in_block = False
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        import asyncio

        self._in_block = False
        grip = self._grip
        if grip is None:
            return  # it was released inside the block
        try:
            was_held = await self.release()
        except asyncio.CancelledError:
            if not self._was_cancelled:
                raise
            was_held = False
        except DirtyError as exc:
            grip.lose(f"nobody can say whether it was held to the end: {exc}")
            was_held = False
        is_ours_to_tell = kind is None
        if self._was_cancelled and self._holder is not None and self._holder.uncancel() <= self._cancelling:
            is_ours_to_tell = kind is None or kind is asyncio.CancelledError
        if is_ours_to_tell and not was_held:
            grip.lose("its owner no longer knew it at the end")
            raise grip.error() from error

    def tell_lost(self) -> None:
        """It is lost: tell whoever wants to know, and stop the block. For the task that renews."""
        if self._cancels and self._in_block and self._holder is not None and not self._holder.done():
            self._was_cancelled = True
            self._holder.cancel()
        if self._on_lost is not None:
            try:
                self._on_lost()
            except Exception:
                import logging  # workers load it only when there is something to say

                logging.getLogger("dirtybus.stash").exception("on_lost of lease %r failed", self._terms.name)

    async def _release(self, token: str) -> StashReply:
        import asyncio

        async with asyncio.timeout(_GIVE_BACK_S):
            return await self._port.ask(Release(self._terms.name, token))

    async def _end(self, watch: asyncio.Task[None] | None, token: str) -> bool:
        import asyncio

        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        return (await self._release(token)).is_true

    async def _acquired(self, token: str) -> Grip:
        terms = self._terms
        until = time.monotonic() + terms.wait_s
        while True:
            asked_at = time.monotonic()
            reply = await self._port.ask(terms.acquire(token, until - asked_at))
            if reply.is_true and time.monotonic() - asked_at > terms.ttl_s / 3:
                fencing, asked_at = reply.version, time.monotonic()  # nobody here knows when the wait ended
                if (await self._port.ask(Renew(terms.name, token, terms.ttl_s))).is_true:
                    return Grip(terms, token, fencing, asked_at)
            elif reply.is_true:
                return Grip(terms, token, reply.version, asked_at)
            if time.monotonic() >= until:
                raise terms.held(reply)


async def _keep(lease: weakref.ref[AsyncLease], grip: Grip, port: AsyncPort, holder: asyncio.Task[Any] | None) -> None:
    """Renew, for as long as the lease and the task that took it live."""
    import asyncio

    while not grip.is_lost:
        moment = grip.renew_at if grip.terms.renews else grip.expires_at
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        if lease() is None or (holder is not None and holder.done()):
            return
        if not grip.terms.renews or grip.is_lost:
            continue
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(grip.expires_at - asked_at):
                grip.note(await port.ask(Renew(grip.terms.name, grip.token, grip.terms.ttl_s)), asked_at)
        except (DirtyError, TimeoutError):
            grip.retry_later()  # until its time is over
    one = lease()
    if one is not None and not (holder is not None and holder.done()):
        one.tell_lost()


async def _to_the_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Await ``work`` wholly; a cancellation that comes meanwhile is raised after it. The work bounds its own time."""
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # it was looked at
        raise cancelled
    return task.result()
