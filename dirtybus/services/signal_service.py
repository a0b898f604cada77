"""SignalService: who asks from outside for an end, a size or new code is heard. Must never learn how any is done."""

from __future__ import annotations

import signal
from typing import Final, Protocol

from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.events import LogReopenRequested, ReloadRequested, ScaleRequested, ShutdownRequested
from dirtybus.log_files import reopen_log_files
from dirtybus.services.base import DirtyService
from dirtybus.services.handlers import is_main_thread
from dirtybus.services.news import listening
from dirtybus.services.parentage import shell_above

__all__ = ["Scalable", "SignalService"]

#: how many workers more each of these signals asks for
SCALE_SIGNALS: Final = {signal.SIGTTIN: 1, signal.SIGTTOU: -1}


class Scalable(Protocol):
    """Whoever has a number of workers to be, and log files."""

    @property
    def target(self) -> int: ...

    def why_not(self, workers: int) -> str | None:
        """Return the sentence that forbids so many workers."""

    def reopen_logs(self) -> object:
        """Have the log files of every worker opened anew."""


class SignalService(DirtyService):
    """Listens to the outside for as long as the application runs.

    SIGTERM, SIGINT and SIGQUIT go to the guard, unless somebody else handles them already, as uvicorn or
    ``asyncio.run`` do. SIGTTIN and SIGTTOU post a `ScaleRequested` for one worker more or less, SIGHUP a
    `ReloadRequested`, SIGUSR1 a `LogReopenRequested`; all four unless somebody else handles them. A
    `ShutdownRequested` on the bus ends the application in order, with exit code 0; a `LogReopenRequested` reopens the
    log files of this process and of the workers. Handlers are given back when the launch has ended.
    """

    id = "dirtybus.signals"

    def __init__(self, arbiter: Scalable, broadcast: Broadcast) -> None:
        super().__init__()
        self._arbiter = arbiter
        self._broadcast = broadcast

    async def launch(self, manager: Launart) -> None:
        """Listen from the first moment on: a signal may come while the others prepare."""
        self._take_signals()
        with (
            listening(self._broadcast, ShutdownRequested, self._leave),
            listening(self._broadcast, LogReopenRequested, self._reopen_logs),
        ):
            await super().launch(manager)

    def _take_signals(self) -> None:
        if not is_main_thread():
            logger.warning(
                "launched outside of the main thread, where Python handles no signals: SIGTERM will not drain; "
                "post ShutdownRequested to end"
            )
            return
        self.guard.signals.take()
        self.guard.signals.take_other(SCALE_SIGNALS, self._ask_for)
        self.guard.signals.take_other((signal.SIGHUP,), lambda _: self._ask_reload())
        self.guard.signals.take_other((signal.SIGUSR1,), lambda _: self._ask_reopen())
        if shell := shell_above():
            logger.warning(
                "started by `{}`, which does not pass SIGTERM on: who stops that shell does not stop this process in "
                "order. Write `exec` before the command, or start it without a shell",
                shell,
            )

    def _ask_for(self, signum: int) -> None:
        name, wanted = signal.Signals(signum).name, self._arbiter.target + SCALE_SIGNALS[signal.Signals(signum)]
        if why := self._arbiter.why_not(wanted):
            logger.warning("{}: {}", name, why)
            return
        self._broadcast.postEvent(ScaleRequested(wanted))

    def _ask_reload(self) -> None:
        self._broadcast.postEvent(ReloadRequested("SIGHUP received"))

    def _ask_reopen(self) -> None:
        self._broadcast.postEvent(LogReopenRequested())

    async def _leave(self, event: ShutdownRequested) -> None:
        self.guard.request_exit(f"shutdown {event.why}")

    async def _reopen_logs(self) -> None:
        for problem in reopen_log_files():
            logger.warning("{}", problem)
        self._arbiter.reopen_logs()
        logger.info("log files are opened anew")
