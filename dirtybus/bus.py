"""`DirtyBus`: the facade. Puts the arbiter, the gate and the services on a bus and a lifecycle that exist already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

from graia.broadcast import Broadcast
from graia.broadcast.entities.event import Dispatchable
from launart import Launart

from dirtybus import stash
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.arbiter_service import ArbiterService
from dirtybus.bridge import Bridge
from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyError, DirtyTimeoutError, Draining, GateClosed
from dirtybus.events import DirtyEvent, ExecutionRequested, LifecycleEvent, ShutdownRequested
from dirtybus.locker import DropReason, ProcessLocker
from dirtybus.outcome import ChunkReader
from dirtybus.services import GateService, SignalService, WorkerService
from dirtybus.services.scale_service import ScaleService
from dirtybus.stash import AsyncStash, Stash
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.port import AsyncLocalPort, LocalPort
from dirtybus.stash_service import StashService

__all__ = ["DirtyBus"]

E = TypeVar("E", bound=DirtyEvent)


class DirtyBus:
    """An event bus whose execution events run in worker processes.

    ::

        bus = DirtyBus(apps=["shop.ml:Classifier"], workers=2)
        bus.install(it(Launart), it(Broadcast))
        it(Launart).launch_blocking()

    Args:
        config: the settings; or leave it out and give them as keyword arguments in their friendly forms, as
            `DirtyConfig.of` takes them (``timeout="5m"``).

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(self, config: DirtyConfig | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise TypeError(f"give a DirtyConfig or settings by keyword, not both: {', '.join(settings)}")
        self.config = config or DirtyConfig.of(*settings.pop("apps", ()), **settings)
        keeper = Keeper(self.config.stash)
        self.arbiter = Arbiter(self.config, stash=keeper, observer=self._observe)
        self.arbiter.on_stop = lambda why: self.post(ShutdownRequested(why))
        self._port = port = LocalPort(keeper)
        #: the shared tables, for tasks and for plain code in this process
        self.stash = AsyncStash(AsyncLocalPort(port))
        self.stash_sync = Stash(port)
        gate = self.config.gate
        self.locker = ProcessLocker(
            gate.max_concurrent,
            mode=gate.mode,
            max_pending=gate.max_pending,
            overflow=gate.overflow,
            hold_timeout_s=gate.hold_timeout_s,
            on_drop=self._refuse,
        )
        #: called at the beginning of each reload for the settings that it is to bring; None: those of before
        self.reload_config: Callable[[], DirtyConfig] | None = None
        self.arbiter.is_accepted_work = lambda: self.locker.is_inside
        self._broadcast: Broadcast | None = None
        self._bridge: Bridge | None = None

    @property
    def is_ready(self) -> bool:
        """Whether work should be sent here: from the opening of the gate until the first moment of the end.

        For ``drain_delay`` more, work is still taken.
        """
        return self.arbiter.is_ready

    def install(self, launart: Launart, broadcast: Broadcast) -> None:
        """Add the services to ``launart``, and the gate and the bridge to ``broadcast``; nothing starts yet.

        Raises:
            DirtyError: it is installed already.
        """
        if self._broadcast is not None:
            raise DirtyError("this DirtyBus is installed already; make another for another bus")
        self._broadcast = broadcast
        by_type = {DirtyBus: self, Arbiter: self.arbiter, AsyncStash: self.stash, Stash: self.stash_sync}
        by_name = {"bus": self, "client": self.arbiter, "stash": self.stash}
        self._bridge = Bridge(broadcast, self.arbiter, by_type, by_name)
        # after graia's own dispatchers, which must be entered before anything that can stop or wait
        broadcast.prelude_dispatchers.append(self.locker)
        self._bridge.attach()
        stash.bind(self._port, async_port=AsyncLocalPort(self._port))
        workers = WorkerService(self.arbiter, broadcast, self._settings_of_now)
        self.arbiter.on_reload = workers.reload
        for service in (
            SignalService(self.arbiter, broadcast),
            StashService(self.arbiter.stash, partial(stash.unbind, self._port), self._bridge.tell),
            ArbiterService(self.arbiter),
            workers,
            ScaleService(self.arbiter, broadcast),
            GateService(self.locker, self.arbiter, broadcast, self.config),
        ):
            launart.add_component(service)

    def post(self, event: E) -> E:
        """Put ``event`` on the bus and return it at once. From any thread, also before the loop runs.

        Its outcome can be awaited in the loop: ``await bus.post(event).outcome()``.

        Raises:
            DirtyError: the bus is not installed.
        """
        loop = self._loop()
        if _runs_here(loop):
            self._post(event)
        else:
            loop.call_soon_threadsafe(self._post, event)
        return event

    async def ask(self, event: ExecutionRequested) -> Any:
        """Post ``event`` and return its answer. Cancelling cancels the event, and the work that runs for it.

        Raises:
            DirtyError: why there is no answer; see `Arbiter.call`.
            GateClosed: the gate dropped the event.
            Exception: whatever a listener failed it with.
        """
        self.post(event)
        try:
            return await event.outcome()
        finally:
            if not event.is_settled:
                event.cancel("who asked has left")

    async def stream(self, event: ExecutionRequested) -> AsyncGenerator[Any, None]:
        """Post ``event`` and yield its chunks as they come; one when it is answered with a plain value.

        Closing or dropping the iterator cancels the event. Raises as `ask`; the chunks before an error come first.
        """
        state = event._state  # noqa: SLF001 - the bus and its events share the outcome
        state.reader = reader = ChunkReader()
        self.post(event)
        try:
            while chunk := await reader.next():
                yield chunk[0]
            if state.error is not None:
                raise state.error
            if not state.streamed:
                yield state.value
        finally:
            if not event.is_settled:
                event.cancel("its reader has left")

    async def call(self, app: str, action: str, *args: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Run an action without an event: as `Arbiter.call`."""
        return await self.arbiter.call(app, action, *args, timeout_s=timeout_s, **kwargs)

    # --- what the bus does on its own account ---

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._broadcast is None:
            raise DirtyError("the bus is not installed: call bus.install(launart, broadcast) first")
        loop: asyncio.AbstractEventLoop | None = getattr(self._broadcast, "_loop", None)
        if loop is None:
            from creart import it

            # graia's own choice, which launch_blocking() will run
            loop = self._broadcast._loop = it(asyncio.AbstractEventLoop)  # type: ignore[type-abstract]  # noqa: SLF001
        return loop

    def _post(self, event: DirtyEvent) -> None:
        assert self._broadcast is not None
        self._broadcast.postEvent(event)
        if isinstance(event, ExecutionRequested) and (left := event.time_left_s()) is not None:
            timer = self._loop().call_later(left, _expire, event)
            event._state.when_settled(timer.cancel)  # noqa: SLF001

    def _settings_of_now(self) -> DirtyConfig | None:
        return None if self.reload_config is None else self.reload_config()

    def _observe(self, event: LifecycleEvent) -> None:
        if self._bridge is not None:
            self._bridge.tell(event)

    def _refuse(self, event: Dispatchable, reason: DropReason) -> None:
        """The gate dropped an event: whoever asked is told."""
        if not isinstance(event, ExecutionRequested) or self._bridge is None:
            return
        text = f"{event.app} {event.action}: the gate dropped the event ({reason.value})"
        self._bridge.report(event)
        if reason is DropReason.DRAINING:
            event.fail(Draining(text, retry_after_s=5.0))
        else:
            event.fail(GateClosed(text, {"reason": reason.value}))


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _expire(event: ExecutionRequested) -> None:
    """The deadline passed; the arbiter's own answer says more, so this only catches an event that never got there."""
    event.fail(
        DirtyTimeoutError(
            f"{event.app} {event.action}: no answer within {event.timeout_s:g} s",
            event.timeout_s,
            "the event's timeout_s",
            "held",
        )
    )
