"""GateService: opens the gates when all else is prepared, drains them before all else is cleaned up. Runs no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.config import DirtyConfig
from dirtybus.events import DrainBegun
from dirtybus.services.base import DirtyService
from dirtybus.services.news import tell
from dirtybus.services.stages import UNPREPARED

__all__ = ["Admission", "Gate", "GateService"]

#: for the listeners of `DrainBegun`, even if work has no time left at all
DRAIN_BEGUN_S = 0.1
#: for listeners that no gate knows of; one that never ends must not hold up the exit
STRAY_LISTENERS_S = 1.0


class Gate(Protocol):
    """What holds events until all is prepared; the ProcessLocker fits."""

    def open(self) -> object: ...

    def close(self) -> object: ...

    async def drain(self, timeout_s: float | None, *, flush: bool) -> bool: ...

    async def watch(self, preparing: Callable[[], Sequence[str]], *, after_s: float) -> None: ...


class Admission(Protocol):
    """Who takes calls from outside of this process."""

    def admit(self) -> object:
        """Take calls from now on."""

    def stand_down(self) -> object:
        """Tell whoever asks that calls should go elsewhere; take them as before."""

    def close_admission(self) -> object:
        """Refuse new calls with `Draining` from now on."""


class GateService(DirtyService):
    """Requires every other service, so it is the last to prepare and the first to clean up.

    Services that require this one, even through others, prepare after it and are cleaned up before.

    Args:
        locker: the gate for events of the bus.
        arbiter: the gate for calls from outside.
        broadcast: the bus; it is bound to the running loop when this service is launched.
        config: for its ``graceful_timeout_s`` and ``drain_delay_s``, which become the guard's, and
            ``gate.watch_after_s``.
    """

    id = "dirtybus.gate"

    def __init__(self, locker: Gate, arbiter: Admission, broadcast: Broadcast, config: DirtyConfig) -> None:
        super().__init__()
        self._locker = locker
        self._arbiter = arbiter
        self._broadcast = broadcast
        self._config = config
        self._asks_required = False
        self._telling: asyncio.Task[bool] | None = None

    @property
    def required(self) -> set[str]:
        if self.manager is None or self._asks_required:
            return set()
        # another service may ask everybody as we do
        self._asks_required = True
        try:
            wanted = {name: set(service.required) for name, service in self._others()}
        finally:
            self._asks_required = False
        ours = {self.id}
        while later := {name for name, required in wanted.items() if name not in ours and required & ours}:
            ours |= later
        return wanted.keys() - ours

    def ensure_manager(self, manager: Launart) -> None:
        super().ensure_manager(manager)
        self.guard.limits = replace(
            self.guard.limits, graceful_s=self._config.graceful_timeout_s, delay_s=self._config.drain_delay_s
        )

    async def launch(self, manager: Launart) -> None:
        """Hold events from the first moment on, and say who is late; drop what is held if the gate never opens."""
        # creart may have given the bus another loop than the one that runs, even a closed one
        self._broadcast._loop = asyncio.get_running_loop()  # noqa: SLF001 - graia has no public way
        looking = asyncio.create_task(
            self._locker.watch(self._preparing, after_s=self._config.gate.watch_after_s), name=f"{self.id} watch-out"
        )
        try:
            await super().launch(manager)
        finally:
            ours = [looking] if self._telling is None else [looking, self._telling]
            for task in ours:
                task.cancel()
            await asyncio.gather(*ours, return_exceptions=True)
            self._telling = None
            await self._locker.drain(0, flush=False)

    async def watch(self) -> None:
        self._locker.open()
        self._arbiter.admit()
        self.guard.take_work(self._stand_down)
        logger.success("all services are prepared: events run and calls are taken")
        await super().watch()

    async def drain(self, within_s: float) -> None:
        if self._telling is None:  # told to end before the gate was open
            self._stand_down(within_s)
        assert self._telling is not None
        # first the word, so that nobody sends us work that we are about to refuse
        await asyncio.wait({self._telling}, timeout=max(within_s, DRAIN_BEGUN_S))
        self._arbiter.close_admission()
        if not await self._locker.drain(self.guard.remaining_s, flush=True):
            self.guard.cut(f"events were still held or running {within_s:g} s after the exit began")
        await self._stray_listeners(min(STRAY_LISTENERS_S, self.guard.remaining_s))

    def kill(self) -> None:
        self._locker.close()
        self._arbiter.close_admission()

    def _stand_down(self, within_s: float) -> None:
        """Stop being ready, and say so; work is still taken."""
        self._arbiter.stand_down()
        telling = tell(self._broadcast, DrainBegun(within_s), within_s=max(within_s, DRAIN_BEGUN_S))
        self._telling = asyncio.create_task(telling, name=f"{self.id} drain begun")

    def _others(self) -> list[tuple[str, Any]]:
        """Every other service that was there from the start; one that came later can be removed again."""
        manager = self.manager
        assert manager is not None
        group = manager.task_group
        late = {} if group is None else group.sideload_trackers
        return [(name, each) for name, each in manager.components.items() if name != self.id and name not in late]

    def _preparing(self) -> list[str]:
        return [name for name, service in self._others() if service.status.stage in UNPREPARED]

    async def _stray_listeners(self, within_s: float) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + within_s
        # graia keeps one set for all buses and loops of the process
        while strays := {task for task in self._broadcast._background_tasks if task.get_loop() is loop}:  # noqa: SLF001
            left_s = ends_at - loop.time()
            if left_s <= 0:
                logger.warning("{} events still have listeners running: going on without them", len(strays))
                return
            await asyncio.wait(strays, timeout=left_s)
