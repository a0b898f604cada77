"""Files that ask for a reload: ``restart.txt``, when it is touched, and ``always_restart.txt``, while it is there.

As Phusion Passenger has them, for deployments that can do no more than touch a file. Looked at when calls come, and no
more often than the settings say: without calls nobody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from dirtybus import log
from dirtybus.config import DirtyConfig
from dirtybus.in_thread import in_thread

__all__ = ["RestartFiles"]

_TOUCHED: Final = "restart.txt"
_ALWAYS: Final = "always_restart.txt"


class RestartFiles:
    """Watches the directories of the settings, and has the workers reloaded.

    Args:
        reload: replaces every worker; raises when the old ones serve on.
    """

    def __init__(self, reload: Callable[[], Awaitable[object]]) -> None:
        self._reload = reload
        self._stamps: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None
        self.heed(DirtyConfig())

    def heed(self, config: DirtyConfig) -> None:
        """Go by these settings. What stands in a directory that is new here asks for nothing yet."""
        self._interval_s = config.restart_look_s
        self._directories: Sequence[str] = config.restart_dirs
        self._next_at = 0.0
        known = self._stamps
        self._stamps = {directory: known.get(directory, -1) for directory in self._directories}
        for directory, stamp in self._stamps.items():
            if stamp == -1:
                self._stamps[directory] = _stamp(Path(directory) / _TOUCHED)

    def note_call(self) -> None:
        """A worker was sent a call: look, unless that was done lately, or is being done."""
        if not self._directories or self._looking is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_at:
            self._next_at = loop.time() + self._interval_s
            self._looking = loop.create_task(self._look(), name="dirtybus look for restart files")

    async def close(self) -> None:
        """Look no more. A reload that has begun goes on. May be called twice."""
        self._directories = ()
        if (looking := self._looking) is not None:
            looking.cancel()
            await asyncio.wait({looking})

    async def _look(self) -> None:
        try:
            # a directory may be on a disk that does not answer
            found = await in_thread(_find, tuple(self._directories))
            why = self._reason(found)
            if why is not None:
                log.logger.info("a reload was asked for ({})", why)
                await self._reload()
        except Exception as exc:  # the way to the reload may lead through a user's code
            log.logger.error("the reload failed, what served before serves on: {}", exc)
        finally:
            self._looking = None

    def _reason(self, found: Mapping[str, tuple[int, bool]]) -> str | None:
        """Return what asks for a reload, and book what was found."""
        why = None
        for directory, (stamp, is_always) in found.items():
            before = self._stamps.get(directory, stamp)
            self._stamps[directory] = stamp
            if stamp not in (0, before):  # that it was deleted asks for nothing
                why = f"{Path(directory) / _TOUCHED} was touched"
            elif is_always:
                why = why or f"{Path(directory) / _ALWAYS} is there"
        return why


def _find(directories: Sequence[str]) -> dict[str, tuple[int, bool]]:
    return {each: (_stamp(Path(each) / _TOUCHED), bool(_stamp(Path(each) / _ALWAYS))) for each in directories}


def _stamp(path: Path) -> int:
    """Return when the file was changed, in nanoseconds; 0 when it is not there or cannot be seen."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
