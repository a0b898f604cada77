"""Signal handlers: who had them before us, and how they get them back. Knows no signal's meaning."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

__all__ = ["SignalHandlers", "is_main_thread"]

if TYPE_CHECKING:
    Previous = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


def is_main_thread() -> bool:
    """Whether Python lets this thread set signal handlers."""
    return threading.current_thread() is threading.main_thread()


class SignalHandlers:
    """The handlers that we set, and what stood there before."""

    def __init__(self) -> None:
        self._ours: dict[signal.Signals, tuple[Callable[[int, FrameType | None], None], Previous]] = {}

    def __contains__(self, signum: int) -> bool:
        return signum in self._ours

    def install(self, signals: Iterable[signal.Signals], callback: Callable[[int], object]) -> None:
        """Have ``callback`` called with the number of the signal, between two bytecodes of the main thread."""

        def on_signal(signum: int, _frame: FrameType | None) -> None:
            callback(signum)

        for each in signals:
            previous = signal.signal(each, on_signal)
            self._ours[each] = (on_signal, self._ours[each][1] if each in self._ours else previous)

    def adopt(self, signals: Iterable[signal.Signals], callback: Callable[[int], object]) -> list[signal.Signals]:
        """Install for those signals that nobody in this process has a handler for; return them."""
        orphans = [each for each in signals if _is_default(signal.getsignal(each))]
        self.install(orphans, callback)
        return orphans

    def restore(self) -> None:
        """Give back every signal that is still ours. May be called twice."""
        ours, self._ours = self._ours, {}
        for each, (handler, previous) in ours.items():
            if signal.getsignal(each) is handler:
                # None: a handler that C code had set, which Python cannot put back
                signal.signal(each, signal.SIG_DFL if previous is None else previous)


def _is_default(handler: Previous) -> bool:
    return handler in (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler)
