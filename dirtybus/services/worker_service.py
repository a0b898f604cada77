"""WorkerService: has the workers started, resized, reloaded and retired. Must never learn how a worker is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.arbiter.ledger import OUTCOMES
from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyError, Draining
from dirtybus.events import DrainEnded, ReloadEnded, ReloadRequested, ScaleRequested
from dirtybus.services.base import DirtyService
from dirtybus.services.news import listening, tell
from dirtybus.services.reloads import Reloads

__all__ = ["Books", "WorkerPool", "WorkerService"]

#: how long the listeners of `DrainEnded` hold up the end
TELL_WITHIN_S = 0.5


class Books(Protocol):
    """What became of the calls."""

    def as_mapping(self) -> Mapping[str, int]: ...


class WorkerPool(Protocol):
    """Whoever runs the workers."""

    @property
    def ledger(self) -> Books: ...

    async def start(self) -> object:
        """Return when every worker is ready. Raises when they cannot be."""

    async def watch(self) -> object:
        """Return or raise only when the workers are beyond repair."""

    async def drain(self, within_s: float) -> bool:
        """Let queued and running calls end, then retire the workers. False when calls were cut."""

    def resize(self, workers: int, app: str | None = None) -> int:
        """Have so many workers from now on, or instances of the app; returns how many it will be."""

    def bound(self, least: int, most: int) -> object:
        """Have from now on at least and at most so many workers."""

    async def reload(self, config: DirtyConfig | None = None) -> None:
        """Replace every worker by one with the code and the settings of now. Raises when the old ones serve on."""

    def kill(self) -> object:
        """Kill every worker and fail every call, without awaiting. May be called twice."""


class WorkerService(DirtyService):
    """Prepared when every worker is ready; cleaned up when the last one has left. Posts `DrainEnded` then.

    While it runs, a `ScaleRequested` resizes the pool, and a `ReloadRequested` reloads it; each is followed by a
    `ReloadEnded`.

    Args:
        arbiter: runs the workers.
        broadcast: the bus.
        settings: called at the beginning of each reload for the settings that it is to bring; None: those of before.
    """

    id = "dirtybus.workers"
    requires = frozenset({"dirtybus.arbiter"})

    def __init__(
        self,
        arbiter: WorkerPool,
        broadcast: Broadcast,
        settings: Callable[[], DirtyConfig | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._arbiter = arbiter
        self._broadcast = broadcast
        self._settings = settings
        self._reloads = Reloads(self._load, self._note_reloaded)

    async def launch(self, manager: Launart) -> None:
        """Go through the stages; no reload is left behind."""
        self._reloads = Reloads(self._load, self._note_reloaded)
        try:
            await super().launch(manager)
        finally:
            await self._reloads.end()

    async def start(self) -> None:
        await self._arbiter.start()

    async def watch(self) -> None:
        with (
            listening(self._broadcast, ScaleRequested, self._resize),
            listening(self._broadcast, ReloadRequested, self._ask_reload),
        ):
            await self._arbiter.watch()

    async def reload(self) -> None:
        """Reload the workers, as `ReloadRequested` does, and wait for it. Cancelling leaves it going on.

        Raises:
            BootFailed: the new workers could not start; the old ones serve on.
            ConfigError: the settings of now cannot be used; likewise.
            Draining: the application was told to end.
        """
        if self.guard.is_told_to_end:
            raise Draining("the application is about to end: there is no reload any more")
        error = await asyncio.shield(self._reloads.ask())
        if error is not None:
            raise error

    async def drain(self, within_s: float) -> None:
        await self._reloads.end()
        try:
            is_clean = await self._arbiter.drain(within_s)
        except Exception:
            await self._tell_ended(is_clean=False)
            raise
        finally:
            self._log_books()
        if not is_clean:
            self.guard.cut(f"calls were still running {self.guard.limits.graceful_s:g} s after the exit began")
        await self._tell_ended(is_clean=not self.guard.verdict.cuts)

    def kill(self) -> None:
        self._arbiter.kill()

    async def _tell_ended(self, *, is_clean: bool) -> None:
        await tell(self._broadcast, DrainEnded(clean=is_clean), within_s=TELL_WITHIN_S)

    def _log_books(self) -> None:
        books = self._arbiter.ledger.as_mapping()
        is_odd = books["lost"] or books["submitted"] != sum(books[word] for word in OUTCOMES)
        line = " ".join(f"{word}={books[word]}" for word in ("submitted", *OUTCOMES, "late"))
        logger.log("WARNING" if is_odd else "INFO", "calls: {}", line)

    async def _ask_reload(self, event: ReloadRequested) -> None:
        if self.guard.is_told_to_end:
            self._note_reloaded(Draining("the application is about to end: there is no reload any more"))
            return
        logger.info("a reload was asked for ({})", event.why)
        self._reloads.ask()

    async def _load(self) -> None:
        config = self._settings()
        await self._arbiter.reload(config)
        if config is not None:
            self.guard.limits = replace(
                self.guard.limits, graceful_s=config.graceful_timeout_s, delay_s=config.drain_delay_s
            )

    def _note_reloaded(self, error: DirtyError | None) -> None:
        if error is None:
            logger.success("reloaded: the new workers serve")
        else:
            logger.error("the reload failed, what served before serves on: {}", error)
        self._broadcast.postEvent(ReloadEnded(error))

    async def _resize(self, event: ScaleRequested) -> None:
        try:
            if event.pool_size is not None:
                self._arbiter.bound(*event.pool_size)
                logger.info("from {} to {} workers were asked for ({})", *event.pool_size, event.why)
            elif event.workers is not None:
                aimed = self._arbiter.resize(event.workers, event.app)
                what = "workers" if event.app is None else f"workers with {event.app}"
                logger.info("{} {} were asked for ({}): there will be {}", event.workers, what, event.why, aimed)
        except DirtyError as exc:
            logger.error("the number of workers stays as it is: {}", exc)
