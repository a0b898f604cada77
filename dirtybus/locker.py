"""ProcessLocker: the graia dispatcher that holds events until all is prepared, paces them and drains them.

It owns who may run now. It must never learn what an event asks for, nor which services exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal

from graia.broadcast.builtin.event import ExceptionThrown
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.errors import ConfigError, DirtyError
from dirtybus.events import EventDropped, LifecycleEvent
from dirtybus.gate.drops import Drops
from dirtybus.gate.opener import Opener
from dirtybus.gate.permits import Permits, Phase, Scope
from dirtybus.gate.policy import DropReason, HoldPolicy
from dirtybus.gate.request import Request
from dirtybus.gate.snapshot import LockerSnapshot
from dirtybus.gate.stay import Stay
from dirtybus.gate.turnstile import Turnstile
from dirtybus.gate.watch import HoldWatch

__all__ = ["DEFAULT_EXEMPT", "DropReason", "LockerSnapshot", "ProcessLocker"]

#: Events that pass any locker unless told otherwise: a held one of these would block what opens the gate.
DEFAULT_EXEMPT: Final[tuple[type, ...]] = (ExceptionThrown, LifecycleEvent)


class ProcessLocker(BaseDispatcher):
    """A gate, a semaphore and a queue for events: shut until `open`, then ``max_concurrent`` at a time, in order.

    Register it for all events (``broadcast.prelude_dispatchers.append(locker)``; never ``insert(0, …)``, as graia's
    own dispatchers must be entered first), for a namespace (``injected_dispatchers``) or for one listener
    (``dispatchers=[…]``), or several of these at once. Use it in its event loop's thread only.

    What is bounded is the seed's smallest unit, a listener's execution: an event with three listeners asks for three
    permits. All that such an execution calls, awaits or posts runs under its one permit, so nothing can deadlock on
    the limit however deep it is nested; in turn, a listener that posts a hundred events runs them all in one slot.
    A listener that waits for an event which is *not* its own doing must do so inside `suspended`.

    Args:
        max_concurrent: how many may run at the same time; None for no bound.
        mode: whether events that come while the gate is shut are held or dropped.
        opened: whether the gate is open from the start.
        opened_by: an event whose ``set()`` opens the gate; its ``clear()`` shuts it for whatever comes after.
        max_pending: how many executions may be held; None for no bound.
        overflow: who yields when one more would be held: the new one, silently for its poster (``drop_new``), the
            oldest (``drop_old``), or the new one with its ``fail(GateClosed)`` called if it has one (``refuse``).
        hold_timeout_s: how many seconds an execution may be held; None for no limit.
        only: types to guard, with their subclasses; empty guards all.
        exempt: types that always pass, subclasses too. It replaces `DEFAULT_EXEMPT`; extend that one.
        on_drop: called with the event and a `DropReason`, once per event object however many listeners it has. What
            it raises is logged. An event is dropped if *any* of its executions is; others may have run.

    A dropped event is counted, then ``on_drop`` is called, then an `EventDropped` is posted; only for a cancelled one
    nothing is posted, as its loop may be closing.

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own, all but the first by keyword
        self,
        max_concurrent: int | None = 10,
        *,
        mode: Literal["hold", "drop"] = "hold",
        opened: bool = False,
        opened_by: asyncio.Event | None = None,
        max_pending: int | None = 100_000,
        overflow: Literal["drop_new", "drop_old", "refuse"] = "refuse",
        hold_timeout_s: float | None = None,
        only: tuple[type, ...] = (),
        exempt: tuple[type, ...] = DEFAULT_EXEMPT,
        on_drop: Callable[[Dispatchable, DropReason], object] | None = None,
    ) -> None:
        if max_concurrent is not None and (type(max_concurrent) is not int or max_concurrent < 1):
            raise ConfigError(f"max_concurrent must be a whole number >= 1, or None for no bound: {max_concurrent!r}")
        policy = HoldPolicy(mode=mode, max_pending=max_pending, overflow=overflow, hold_timeout_s=hold_timeout_s)
        self._only = only or (object,)
        # the news of a drop must never be dropped, which would be more news
        self._exempt = (EventDropped, *exempt)
        self._permits: Permits[Request] = Permits(max_concurrent)
        self._turnstile = Turnstile(self._permits, policy, Drops(on_drop), self._note_hold)
        self._watch = HoldWatch(self._permits)
        self._opener = None if opened_by is None else Opener(opened_by, self._heed_opener)
        self._key = f"dirtybus.locker.{id(self)}"
        # a variable for each locker: they live as long as the application, and one mapping for all costs a copy a tree
        self._scope: ContextVar[Scope[Request] | None] = ContextVar(self._key, default=None)
        if opened:
            self.open()

    # --- what graia calls ---

    async def beforeExecution(self, interface: DispatcherInterface[Any]) -> None:
        """Wait for a permit, or join the one of the tree that this execution belongs to."""
        # registered twice, or called again because graia repeats global dispatchers for each nested Depend
        if self._key in interface.local_storage or not self._guards(interface.event):
            return
        scope = self._live_scope()
        if scope is None:
            self._heed_opener()
            scope = (await self._turnstile.admit(interface)).tree
            # never set back: a tree that is gone counts as none, and graia may end it in another context
            self._scope.set(scope)
        else:
            self._turnstile.counters["joined"] += 1
        # kept before the wait: graia calls afterExecution for a cancelled execution too, which then leaves
        interface.local_storage[self._key] = Stay(scope, self._turnstile)
        await self._turnstile.enter(scope)

    async def catch(self, interface: DispatcherInterface[Any]) -> ProcessLocker | None:
        """Inject the locker itself where a listener asks for a `ProcessLocker`."""
        return self if interface.annotation in (ProcessLocker, type(self)) else None

    async def afterExecution(
        self, interface: DispatcherInterface[Any], exception: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Give the permit back when this was the last execution of its tree."""
        # graia calls this also where beforeExecution never ran or was cut short
        stay: Stay | None = interface.local_storage.pop(self._key, None)
        if stay is not None:
            stay.end()

    # --- the gate ---

    @property
    def is_inside(self) -> bool:
        """Whether the code that asks runs for an event that was let in and has not ended."""
        return self._live_scope() is not None

    @property
    def opened(self) -> bool:
        """Whether new events may run."""
        return self._permits.opened and not self._turnstile.draining

    def open(self) -> None:
        """Let events run, those held first, in the order in which they came. Also ends a drain."""
        self._turnstile.draining = False
        self._permits.opened = True
        if self._opener is not None:
            self._opener.show(opened=True)
        self._watch.end()
        self._turnstile.settle()

    def close(self) -> None:
        """Hold (or drop, by ``mode``) the events that come from now on. What runs goes on, nested events too."""
        self._permits.opened = False
        if self._opener is not None:
            self._opener.show(opened=False)
        self._watch.begin()

    @contextlib.asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Lend the slot of the event tree that runs here while it waits for something that is not its own doing.

        Leaving waits until there is a slot again; returning trees go before all new events and need no open gate.
        While the block runs, executions begun within it have the slot; other branches of the same tree go on without
        one. Outside of a guarded execution it does nothing. When leaving is cancelled, the tree goes on without a
        slot until the next is free.
        """
        outer = self._live_scope()
        if outer is None:
            yield
            return
        block = self._permits.open_block(outer)
        self._scope.set(block)
        self._turnstile.settle()
        try:
            yield
        finally:
            self._scope.set(outer)
            self._permits.close_block(block)
            self._turnstile.settle()
            await self._turnstile.has_slot(block)

    async def drain(self, timeout_s: float | None, *, flush: bool = True) -> bool:
        """Take no new events, run what is held (or drop it, without ``flush``) and wait for what runs.

        Events that belong to trees which run already are still taken. What is still held after ``timeout_s`` seconds
        (None: no limit) is dropped; what runs then goes on. Cancelling leaves the locker draining, with what was held
        still held: ``drain(0, flush=False)`` drops it.

        Returns:
            Whether all that was let in ended in time.

        Raises:
            DirtyError: called from inside an event, which it would wait for.
        """
        if self._live_scope() is not None:
            raise DirtyError("drain() was called from inside an event that it would wait for; call it from a service")
        self._turnstile.draining = True
        self._watch.end()
        if self._opener is not None:
            await self._opener.stop()
        if flush:
            self._permits.opened = True
            self._turnstile.settle()
        else:
            self._turnstile.drop_held()
        clean = await self._turnstile.is_idle_within(timeout_s)
        if self._turnstile.draining:
            self._turnstile.drop_held()
            self._permits.opened = False
        return clean

    async def watch(self, preparing: Callable[[], Sequence[str]], *, after_s: float) -> None:
        """Until the gate opens or a drain begins, warn of events that are held for longer than ``after_s`` seconds.

        The first warning comes then, the next ones ``after_s``, twice that, four times that… later. Each names what
        ``preparing`` returns: an event held that long is often one which a service awaits before it is prepared.
        """
        await self._watch.run(preparing, after_s=after_s)

    # --- what there is to see ---

    @property
    def counters(self) -> Mapping[str, int]:
        """Live counts of executions, by name; ``arrived == started + pending + every dropped_…`` once all woke."""
        return MappingProxyType(self._turnstile.counters)

    def snapshot(self) -> LockerSnapshot:
        permits = self._permits
        oldest = permits.oldest
        return LockerSnapshot(
            opened=self.opened,
            draining=self._turnstile.draining,
            limit=permits.limit,
            free=permits.free,
            running=permits.taken,
            suspended=permits.live - permits.taken,
            pending=permits.pending,
            oldest_held_s=None if oldest is None else time.monotonic() - oldest.asked_at,
            counters=dict(self._turnstile.counters),
        )

    def __repr__(self) -> str:
        return repr(self.snapshot())

    def _guards(self, event: Dispatchable | None) -> bool:
        return isinstance(event, self._only) and not isinstance(event, self._exempt)

    def _live_scope(self) -> Scope[Request] | None:
        """The scope of the tree this runs in; None outside of one, or where a task outlived its tree."""
        scope = self._scope.get()
        if scope is None or scope.permit.phase is Phase.GONE:
            return None
        return scope.innermost_open()

    def _note_hold(self) -> None:
        self._watch.stir()
        if self._opener is not None:
            self._opener.follow()

    def _heed_opener(self) -> None:
        if self._opener is None or self._turnstile.draining or self._opener.is_open is self._permits.opened:
            return
        if self._opener.is_open:
            self.open()
        else:
            self.close()
