"""The signals that end us, from their arrival to an order in the event loop. Knows no service."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Final

from dirtybus.services.departure import ExitLimits
from dirtybus.services.handlers import SignalHandlers, is_main_thread
from dirtybus.services.verdict import FAILED, cold_code
from dirtybus.services.watchdog import Watchdog

__all__ = ["EXIT_SIGNALS", "ExitSignals"]

#: SIGQUIT is cold at once; of the others the second one is
EXIT_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


class ExitSignals:
    """Counts the signals of one launch after another, and bounds in a thread what each of them asks for.

    Args:
        on_leave: called in the loop for a signal that asks for an orderly end.
        on_cold: called in the loop for one that asks for an end at once.
        last_words: as for `Watchdog`.
    """

    def __init__(
        self,
        *,
        on_leave: Callable[[signal.Signals], object],
        on_cold: Callable[[signal.Signals], object],
        last_words: Callable[[int], object],
    ) -> None:
        self._on_leave = on_leave
        self._on_cold = on_cold
        self._handlers = SignalHandlers()
        self._watchdog = Watchdog(on_signal=self._notice, last_words=last_words)
        #: those of the guard
        self.limits = ExitLimits()
        self._loop: asyncio.AbstractEventLoop | None = None
        # each signal is seen twice, by a handler and by the watchdog, in either order; both count the same
        self._seen = self._noticed = 0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """A launch begins in this loop. Nothing is handled yet."""
        self._loop = loop
        self._seen = self._noticed = 0

    def take(self, signals: Iterable[signal.Signals] = ()) -> None:
        """Handle these signals, and SIGINT, SIGTERM and SIGQUIT as far as nobody in this process does.

        Outside of the main thread no signal is handled.
        """
        self._watchdog.start()
        if is_main_thread():
            self._handlers.install(signals, self.arrived)
            self._handlers.adopt(EXIT_SIGNALS, self.arrived)

    def take_other(self, signals: Iterable[signal.Signals], callback: Callable[[int], object]) -> None:
        """Have ``callback`` called in the loop for these signals, as far as nobody handles them."""
        loop = self._loop

        def on_signal(signum: int) -> None:
            if loop is not None:
                loop.call_soon_threadsafe(callback, signum)

        self._handlers.adopt(signals, on_signal)

    def arrived(self, signum: int) -> None:
        """Order what the signal asks for. For signal handlers: takes no lock, raises nothing."""
        if self._loop is None:
            return
        self._seen += 1
        is_cold = self._bound(signum, self._seen)
        self._loop.call_soon_threadsafe(self._on_cold if is_cold else self._on_leave, signal.Signals(signum))

    def end_process_within(self, within_s: float, code: int) -> None:
        """Have the process end with this code in so many seconds, unless the launch has ended before."""
        self._watchdog.arm(within_s, code)

    def end(self, *, keep_watch: bool) -> None:
        """Give all signals back. With ``keep_watch``, the process still ends by force when that was ordered."""
        self._loop = None
        self._handlers.restore()
        if not keep_watch:
            self._watchdog.stop()

    def _bound(self, signum: int, number: int) -> bool:
        """Bound what the signal asks for, being the first, the second…; return whether that is a cold stop."""
        is_cold = signum == signal.SIGQUIT or number > 1
        if is_cold:
            self._watchdog.arm(self.limits.cold_s, cold_code(signum))
        else:
            self._watchdog.arm(self.limits.hard_s, FAILED)
        return is_cold

    def _notice(self, signum: int) -> None:
        """In the watchdog's thread: a signal came, and the main thread may not know it for a long time."""
        loop = self._loop
        if loop is None or signum not in self._handlers:
            return
        if signum in EXIT_SIGNALS:
            self._noticed += 1
            self._bound(signum, self._noticed)
        # an idle loop would only run the handler when something else happens
        loop.call_soon_threadsafe(bool)
