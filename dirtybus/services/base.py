"""DirtyService: four verbs over launart's three stages, each bounded. Must never learn what it starts and stops."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from launart import Launart, Service
from launart.status import Phase

from dirtybus.errors import DirtyError, DirtyTimeoutError
from dirtybus.services.guard import LaunartGuard, attach

__all__ = ["DirtyService"]

#: for a watch to end once it is cancelled
WATCH_GRACE_S = 1.0


class DirtyService(Service):
    """A launart service that fails loudly and always ends.

    Subclasses say `start`, `watch`, `drain` and `kill`. Adding one to a Launart puts a `LaunartGuard` on it.

    Attributes:
        id: the name for ``required``; without braces, which launart cannot log.
        requires: ids of the services that start before and are drained after this one.
        start_within_s: how long `start` may take; None: it has a limit of its own.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    start_within_s: ClassVar[float | None] = None

    @property
    def required(self) -> set[str]:
        return set(self.requires)

    @property
    def stages(self) -> set[Phase]:
        return {"preparing", "blocking", "cleanup"}

    @property
    def guard(self) -> LaunartGuard:
        """The guard of the Launart that the service was added to."""
        return self._guard

    def ensure_manager(self, manager: Launart) -> None:
        super().ensure_manager(manager)
        self._guard = attach(manager)

    # --- the four verbs ---

    async def start(self) -> None:
        """Get ready. Nothing that requires this service starts before it returns.

        Raise to end the application; `kill` is called then, as it is when the start is cancelled.
        """

    async def watch(self) -> None:
        """Stay until all are to leave, and be cancelled then. Returning or raising before ends the application."""
        await asyncio.get_running_loop().create_future()

    async def drain(self, within_s: float) -> None:
        """Let what runs end within so many seconds, then let go of everything."""

    def kill(self) -> None:
        """Let go of everything at once, without awaiting. May be called at any moment, even twice, in any thread.

        Called when the start fails, when the drain fails or takes too long, and when the process is to end at once.
        """

    # --- how launart calls them ---

    async def launch(self, manager: Launart) -> None:
        """Go through the stages. However this ends, the service is drained or killed."""
        is_drained = False
        try:
            async with self.stage("preparing"):
                self.guard.kills.add(self.id, self.kill)
                await self._start()
            async with self.stage("blocking"):
                await self._watch(manager)
            async with self.stage("cleanup"):
                is_drained = await self._drain()
        finally:
            if is_drained:
                self.guard.kills.forget(self.id)
            else:
                self.guard.kills.call(self.id)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self.start_within_s) as limit:
                await self.start()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DirtyTimeoutError(
                f"service {self.id} did not start within {self.start_within_s} s", self.start_within_s, phase="start"
            ) from error

    async def _watch(self, manager: Launart) -> None:
        """Watch until all leave. A watch that fails is booked, and the service goes on to its cleanup."""
        if self.guard.is_leaving:
            return
        watching = asyncio.create_task(self.watch(), name=f"{self.id} watch")
        leaving = asyncio.create_task(manager.status.wait_for_sigexit())
        try:
            await asyncio.wait({watching, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            was_early = watching.done() and not self.guard.is_told_to_end
            watching.cancel()
            await asyncio.wait({watching}, timeout=WATCH_GRACE_S)
        if not watching.done():
            self.guard.fail(self.id, DirtyTimeoutError(f"the watch of service {self.id} goes on though cancelled"))
        elif not watching.cancelled() and (error := watching.exception()) is not None:
            self.guard.fail(self.id, error)
        elif was_early:
            self.guard.fail(self.id, DirtyError(f"the watch of service {self.id} ended, though nobody is to leave"))

    async def _drain(self) -> bool:
        within_s = self.guard.remaining_s
        try:
            async with asyncio.timeout(within_s + self.guard.limits.overtime_s) as limit:
                await self.drain(within_s)
        except Exception as error:
            if limit.expired():
                self.guard.cut(f"service {self.id} did not drain within {within_s:.1f} s")
            else:
                self.guard.fail(self.id, error)
            return False
        return True
