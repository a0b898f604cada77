"""A reload from the outside: looks at the new code, has the pool replace the workers, and tells how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dirtybus import log
from dirtybus.arbiter.directory import Directory
from dirtybus.arbiter.editions import Edition, Editions, check_reloadable
from dirtybus.arbiter.inspection import inspect_directory
from dirtybus.arbiter.spawner import Spawner
from dirtybus.config import DirtyConfig, check_apps
from dirtybus.errors import DirtyError, Draining
from dirtybus.pool import ports

__all__ = ["Reloader"]


class Reloader:
    """One reload at a time; the next one begins when the one before is over.

    Args:
        editions: where the new edition goes.
        spawner: starts the child that looks at the new code.
        feed: tells the pool a fact.
        size: how many workers the pool aims at.
        on_edition: told of the new edition before the first worker of it is started.
    """

    def __init__(
        self,
        editions: Editions,
        spawner: Spawner,
        *,
        feed: Callable[[ports.Fact], object],
        size: Callable[[], int],
        on_edition: Callable[[Edition], object],
    ) -> None:
        self._editions = editions
        self._spawner = spawner
        self._feed = feed
        self._size = size
        self._on_edition = on_edition
        self._turn = asyncio.Lock()
        self._under_way: asyncio.Future[DirtyError | None] | None = None
        self._looking: asyncio.Task[Directory] | None = None
        self._is_over = False

    async def reload(self, config: DirtyConfig) -> None:
        """Replace every worker; return when the new ones serve. The old ones leave when their calls have ended.

        Cancelling it while the new code is looked at leaves everything as it was; later, the reload goes on.

        Raises:
            ConfigError: the settings cannot be, or not without another owner. Nothing has changed.
            BootFailed: the new code or a worker with it cannot start. The old workers serve on.
            Draining: a shutdown came first.
        """
        async with self._turn:
            if self._under_way is not None:  # of somebody who did not wait for it
                await asyncio.wait({self._under_way})
            check_reloadable(self._editions.current.config, config)
            edition = Edition(config, await self._look(config))
            size = self._next_size(edition)
            self._on_edition(edition)
            under_way = self._begin(edition, size)
            error = await asyncio.shield(under_way)
        if error is not None:
            raise error

    def end(self, report: ports.ReportReload, went_wrong: DirtyError | None) -> None:
        """The pool has reported the end of the reload; ``went_wrong`` is the failure of the worker that it names."""
        error: DirtyError | None = None
        if not report.is_done:
            error = went_wrong or Draining("shutting down: the reload was given up; the old workers finish their calls")
        self._editions.withdraw(report.generation)
        under_way, self._under_way = self._under_way, None
        if under_way is not None and not under_way.done():
            under_way.set_result(error)

    def kill(self) -> None:
        """All workers were ended at once: whoever waits is told, and there is no reload any more."""
        self._is_over = True
        if self._looking is not None:
            self._looking.cancel()
        if self._under_way is not None and not self._under_way.done():
            self._under_way.set_result(_stopped())

    async def _look(self, config: DirtyConfig) -> Directory:
        """Look at the code of now; `kill` ends it."""
        self._looking = asyncio.create_task(inspect_directory(self._spawner, config), name="dirtybus look at the apps")
        try:
            if not self._is_over:
                return await self._looking
        except asyncio.CancelledError:
            if not self._is_over:  # it was us who were cancelled
                raise
        finally:
            self._looking.cancel()
            await asyncio.wait({self._looking})
            self._looking = None
        raise _stopped()

    def _begin(self, edition: Edition, size: int) -> asyncio.Future[DirtyError | None]:
        under_way = self._under_way = asyncio.get_running_loop().create_future()
        generation = self._editions.add(edition)
        log.logger.info("reload {}: replacing {} workers, one after the other", generation, self._size())
        directory = edition.directory
        self._feed(ports.ReloadBegun(generation, edition.config, directory.specs, size, directory.threads_by_app))
        return under_way

    def _next_size(self, edition: Edition) -> int:
        """Return how many workers there will be: a number that somebody scaled to stays, unless the setting changed."""
        if edition.config.pool_size is not None:
            return min(self._size(), edition.config.pool_size[1])  # the pool grows and shrinks by itself afterwards
        before = self._editions.current.config
        is_set_anew = edition.config.workers != before.workers or before.pool_size is not None
        size = edition.config.workers if is_set_anew else max(self._size(), _most_asked(edition))
        check_apps(edition.directory.specs, size)
        return size


def _stopped() -> Draining:
    return Draining("the arbiter was stopped; the reload was not carried out")


def _most_asked(edition: Edition) -> int:
    return max((spec.workers or 1 for spec in edition.directory.specs), default=0)
