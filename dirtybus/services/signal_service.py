"""SignalService: who asks from outside for an end or a size is heard. Must never learn how either is done."""

from __future__ import annotations

import signal
from typing import Final, Protocol

from graia.broadcast import Broadcast
from launart import Launart
from loguru import logger

from dirtybus.events import ScaleRequested, ShutdownRequested
from dirtybus.services.base import DirtyService
from dirtybus.services.handlers import is_main_thread
from dirtybus.services.news import listening

__all__ = ["Scalable", "SignalService"]

#: how many workers more each of these signals asks for
SCALE_SIGNALS: Final = {signal.SIGTTIN: 1, signal.SIGTTOU: -1}


class Scalable(Protocol):
    """Whoever has a number of workers to be."""

    @property
    def target(self) -> int: ...


class SignalService(DirtyService):
    """Listens to the outside for as long as the application runs.

    SIGTERM, SIGINT and SIGQUIT go to the guard, unless somebody else handles them already, as uvicorn or
    ``asyncio.run`` do. SIGTTIN and SIGTTOU post a `ScaleRequested` for one worker more or less. A `ShutdownRequested`
    on the bus ends the application in order, with exit code 0. Handlers are given back when the launch has ended.
    """

    id = "dirtybus.signals"

    def __init__(self, arbiter: Scalable, broadcast: Broadcast) -> None:
        super().__init__()
        self._arbiter = arbiter
        self._broadcast = broadcast

    async def launch(self, manager: Launart) -> None:
        """Listen from the first moment on: a signal may come while the others prepare."""
        self._take_signals()
        with listening(self._broadcast, ShutdownRequested, self._leave):
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

    def _ask_for(self, signum: int) -> None:
        wanted = self._arbiter.target + SCALE_SIGNALS[signal.Signals(signum)]
        self._broadcast.postEvent(ScaleRequested(max(1, wanted)))

    async def _leave(self, event: ShutdownRequested) -> None:
        self.guard.request_exit(f"shutdown {event.why}")
