"""Bus event ⇄ call. Attaches to an existing `Broadcast` and can be detached again; knows no process and no socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from graia.broadcast import Broadcast
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.entities.event import Dispatchable
from graia.broadcast.entities.listener import Listener
from graia.broadcast.entities.signatures import Force
from graia.broadcast.exceptions import ExecutionStop, PropagationCancelled
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus import log
from dirtybus.errors import CallCancelled, DirtyTimeoutError
from dirtybus.events import (
    ChunkArrived,
    DirtyEvent,
    ExecutionFailed,
    ExecutionRequested,
    ExecutionSucceeded,
)

__all__ = ["Bridge", "Caller"]

#: the bridge's own listener comes after every other: it runs what nobody has answered
_LAST = 1_000_000
#: annotations that name no type; graia's own dispatcher fails on the first, a class since Python 3.11
_SAYS_NOTHING = (Any, object)
_FIELDS = ("app", "action", "args", "kwargs", "timeout_s", "priority", "payload")
_ABSENT = object()


class Caller(Protocol):
    """Whatever can run an action: the arbiter of this process, or a client of another's."""

    async def execute(
        self,
        app: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
        on_chunk: Callable[[Any], object] | None = None,
    ) -> Any: ...

    def stream(
        self,
        app: str,
        action: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        priority: int | None = None,
    ) -> AsyncGenerator[Any, None]: ...


class Bridge:
    """Let execution events of ``broadcast`` be run by ``caller``.

    A user's listener that settles an event (`answer`, `fail`) or defers it keeps it; any other event is run here,
    after its listeners. A listener that raises fails its event: running it all the same might do the work twice.

    Args:
        broadcast: the bus.
        caller: runs the actions.
        by_type: what listeners get by annotation, besides the event.
        by_name: what they get by the name of a parameter.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        caller: Caller,
        by_type: Mapping[type, object],
        by_name: Mapping[str, object],
    ) -> None:
        self._broadcast = broadcast
        self._caller = caller
        self._dispatcher = _BridgeDispatcher(by_type, by_name)
        self._original: dict[str, Any] = {}

    def attach(self) -> None:
        """Begin: add a dispatcher and a listener, and let listeners of a class of ours hear its subclasses."""
        broadcast = self._broadcast
        # before graia's own lookup by annotation, and after what must be entered first; it never stops nor waits
        own = [getattr(one, "__name__", "") for one in broadcast.prelude_dispatchers]
        place = own.index("BroadcastBuiltinDispatcher") if "BroadcastBuiltinDispatcher" in own else len(own)
        broadcast.prelude_dispatchers.insert(place, self._dispatcher)
        broadcast.receiver(ExecutionRequested, priority=_LAST)(self._run)
        self._replace("default_listener_generator", self.listeners_of)
        self._replace("Executor", _quiet(broadcast.Executor))

    def detach(self) -> None:
        """End: leave the broadcast as it was. May be called twice."""
        broadcast = self._broadcast
        if self._dispatcher in broadcast.prelude_dispatchers:
            broadcast.prelude_dispatchers.remove(self._dispatcher)
        broadcast.listeners[:] = [one for one in broadcast.listeners if one.callable != self._run]
        for name in self._original:
            vars(broadcast).pop(name, None)
        self._original.clear()

    def listeners_of(self, event_class: type[Dispatchable]) -> Iterable[Listener]:
        """Return who hears ``event_class``: graia matches exact classes; for ours, a base class hears too."""
        if not issubclass(event_class, DirtyEvent):
            found: Iterable[Listener] = self._original["default_listener_generator"](event_class)
            return found
        heard = {base for base in event_class.__mro__ if issubclass(base, Dispatchable)}
        return [
            listener
            for listener in self._broadcast.listeners
            if not (listener.namespace.hide or listener.namespace.disabled)
            and not heard.isdisjoint(listener.listening_events)
        ]

    def tell(self, event: DirtyEvent) -> asyncio.Task[Any] | None:
        """Post ``event`` when anybody listens; return what is done when they are."""
        if not self.listeners_of(type(event)):
            return None
        posted: asyncio.Task[Any] = self._broadcast.postEvent(event)
        return posted

    def report(self, event: ExecutionRequested) -> None:
        """Tell the bus how an execution event was settled, once it is."""
        state = event._state  # noqa: SLF001 - the bridge and the event share the outcome
        state.when_settled(lambda: self._report_now(event))

    # --- the listener that runs what nobody answered ---

    async def _run(self, event: ExecutionRequested) -> None:
        self.report(event)
        if event.is_settled or event.is_deferred:
            return
        work = asyncio.ensure_future(self._work(event))
        event._state.when_settled(work.cancel)  # noqa: SLF001 - settled from outside: nobody needs the work
        try:
            await work
        except asyncio.CancelledError:
            event.fail(CallCancelled(f"{event.app} {event.action}: the task that ran it was cancelled"))
            if not work.cancelled():
                work.cancel()
                raise
        except Exception as exc:
            event.fail(exc)

    async def _work(self, event: ExecutionRequested) -> None:
        left = event.time_left_s()
        if left == 0:
            raise DirtyTimeoutError(
                f"{event.app} {event.action}: its deadline passed before it could run",
                event.timeout_s,
                "the event's timeout_s",
                "held",
            )
        timeout_s = event.timeout_s if left is None else left
        if event._state.reader is None:  # noqa: SLF001
            on_chunk = self._chunk_teller(event)
            call = self._caller.execute(
                event.app,
                event.action,
                event.args,
                event.kwargs,
                timeout_s=timeout_s,
                priority=event.priority,
                on_chunk=on_chunk,
            )
            value = await call
            event.answer(value)
        else:
            await self._stream(event, timeout_s)

    async def _stream(self, event: ExecutionRequested, timeout_s: float | None) -> None:
        tell = self._chunk_teller(event)
        chunks = self._caller.stream(
            event.app, event.action, event.args, event.kwargs, timeout_s=timeout_s, priority=event.priority
        )
        try:
            async for chunk in chunks:
                if tell is not None:
                    tell(chunk)
                await event.emit(chunk)
        finally:
            await chunks.aclose()
        event.end()

    def _chunk_teller(self, event: ExecutionRequested) -> Callable[[Any], object] | None:
        if not self.listeners_of(ChunkArrived):
            return None
        index = iter(range(2**63))
        return lambda chunk: self._broadcast.postEvent(ChunkArrived(event, next(index), chunk))

    def _report_now(self, event: ExecutionRequested) -> None:
        state = event._state  # noqa: SLF001
        if state.error is None:
            self.tell(ExecutionSucceeded(event, state.value))
        else:
            self.tell(ExecutionFailed(event, state.error))

    def _replace(self, name: str, ours: Any) -> None:
        """Put ``ours`` on this one broadcast, and keep what was there."""
        self._original[name] = getattr(self._broadcast, name)
        setattr(self._broadcast, name, ours)


class _BridgeDispatcher(BaseDispatcher):
    """Gives listeners the bus's objects, and takes note of listeners that fail."""

    def __init__(self, by_type: Mapping[type, object], by_name: Mapping[str, object]) -> None:
        self._by_type = by_type
        self._by_name = by_name

    async def catch(self, interface: DispatcherInterface[Any]) -> Any:
        annotation = interface.annotation
        if isinstance(annotation, type) and annotation not in _SAYS_NOTHING:
            for kind, thing in self._by_type.items():
                if issubclass(kind, annotation):
                    return thing
        event = interface.event
        if not isinstance(event, DirtyEvent):
            return None
        if interface.name == "event":
            return event
        found = self._fields(event).get(interface.name, _ABSENT)
        if found is _ABSENT:
            return None
        return Force(None) if found is None else found  # a bare None tells graia that nothing was found

    def _fields(self, event: DirtyEvent) -> Mapping[str, Any]:
        if not isinstance(event, ExecutionRequested):
            return {**event.injectable, **self._by_name}
        own = {name: getattr(event, name) for name in _FIELDS}
        return {**event.injectable, **self._by_name, **own}

    async def afterExecution(
        self, interface: DispatcherInterface[Any], exception: BaseException | None, tb: object
    ) -> None:
        if interface.depth != 0 or exception is None or isinstance(exception, ExecutionStop | PropagationCancelled):
            return
        if interface.exec_result.done():
            interface.exec_result.exception()  # looked at, so asyncio does not report it a second time
        event = interface.event
        if isinstance(exception, asyncio.CancelledError):
            if isinstance(event, ExecutionRequested) and not event.is_deferred:
                event.cancel("its listener was cancelled")
            return
        self._note(event, exception)

    def _note(self, event: object, exception: BaseException) -> None:
        call_id = event.id if isinstance(event, ExecutionRequested) else None
        name, kind = type(event).__name__, type(exception).__name__
        log.error(exception, "a listener of {} failed: {}: {}", name, kind, exception, call=call_id)
        if isinstance(event, ExecutionRequested):
            event.fail(exception)


def _quiet(executor: Callable[..., Any]) -> Callable[..., Any]:
    """Let graia not print listener errors to stderr: they are logged once, with the call id."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        kwargs["print_exception"] = False
        return await executor(*args, **kwargs)

    return run
