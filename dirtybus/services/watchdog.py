"""The watchdog: a thread that ends the process at a set moment, whatever the event loop and the main thread do.

It sees signals by itself. Python runs a handler only between two bytecodes of the main thread: a signal that comes just
before a long system call waits for the end of it, even in an idle event loop.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dirtybus.services.handlers import is_main_thread

__all__ = ["LAST_WORDS_S", "Watchdog"]

#: how long the last words may take: a full pipe or a lock that the stuck main thread holds must not keep us
LAST_WORDS_S: Final = 0.25
_STDERR_FD: Final = 2
#: no signal has this number: the pipe only tells to look at the orders
_LOOK: Final = b"\0"
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class _Strike:
    """End the process at this moment with this code; with no code, end the thread."""

    at: float
    code: int | None


class _Channel:
    """Orders and signals on their way to the thread. Sending takes no lock, so that a signal handler may."""

    def __init__(self) -> None:
        self.orders: collections.deque[_Strike] = collections.deque()
        #: set once nobody sends any more; not before that may the descriptors be closed, and become somebody else's
        self.is_left = threading.Event()
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def send(self, order: _Strike) -> None:
        self.orders.append(order)
        # full: the thread has enough to wake up for
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, _LOOK)

    def take_signals(self) -> None:
        """Have the number of every signal that Python handles written here, unless another loop has it so."""
        if is_main_thread():
            previous = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            if previous != _NOBODY:
                signal.set_wakeup_fd(previous)

    def give_signals_back(self) -> None:
        if is_main_thread():
            current = signal.set_wakeup_fd(_NOBODY)
            if current != self._writer:
                signal.set_wakeup_fd(current)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


class Watchdog:
    """Ends the process with ``os._exit`` once armed and not stopped in time; shows every thread's stack first.

    Args:
        on_signal: called in the thread with the number of each signal that Python handles; it may `arm`.
        last_words: called with the exit code, in a thread of its own, before the end. It may block: it is given a
            quarter of a second.
    """

    def __init__(self, *, on_signal: Callable[[int], object], last_words: Callable[[int], object]) -> None:
        self._on_signal = on_signal
        self._last_words = last_words
        self._channel: _Channel | None = None

    def start(self) -> None:
        """Start the thread unless it runs. Until it is armed it only listens."""
        if self._channel is not None:
            return
        self._channel = _Channel()
        self._channel.take_signals()
        # a daemon, as it must not be what keeps the process
        threading.Thread(target=self._run, args=(self._channel,), name="dirtybus-watchdog", daemon=True).start()

    def arm(self, within_s: float, code: int) -> None:
        """End the process after ``within_s`` seconds with this code; of several orders the earliest counts.

        Does nothing when the thread does not run. May be called in a signal handler.
        """
        channel = self._channel
        if channel is not None:
            channel.send(_Strike(time.monotonic() + within_s, code))

    def stop(self) -> None:
        """Forget all orders and end the thread. May be called twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.give_signals_back()
            channel.send(_Strike(0.0, None))
            channel.is_left.set()

    def _run(self, channel: _Channel) -> None:
        watch = _Watch(channel)
        while not watch.is_over:
            for signum in watch.wait():
                self._on_signal(signum)
            if watch.is_due:
                self._end(watch.code)
        # the thread may see the last order before the byte that tells of it is written
        channel.is_left.wait()
        channel.close()

    def _end(self, code: int) -> None:
        try:
            speaker = threading.Thread(target=self._speak, args=(code,), name="dirtybus-last-words", daemon=True)
            speaker.start()
            speaker.join(LAST_WORDS_S)
        finally:
            # no exit hook, no buffer and no other thread may keep the process now
            os._exit(code)

    def _speak(self, code: int) -> None:
        faulthandler.dump_traceback(_STDERR_FD)
        self._last_words(code)


@dataclass(slots=True)
class _Watch:
    """What the thread knows: when it is to end the process, if at all."""

    channel: _Channel
    strike: _Strike | None = field(default=None)
    is_over: bool = False

    @property
    def is_due(self) -> bool:
        return self.strike is not None and not self.is_over and self.strike.at <= time.monotonic()

    @property
    def code(self) -> int:
        assert self.strike is not None
        assert self.strike.code is not None
        return self.strike.code

    def wait(self) -> list[int]:
        """Wait for an order, a signal or the moment to strike; return the signals."""
        left_s = None if self.strike is None else max(0.0, self.strike.at - time.monotonic())
        # not select(), which knows no descriptor beyond 1023
        poll = select.poll()
        poll.register(self.channel.reader, select.POLLIN)
        seen = os.read(self.channel.reader, 512) if poll.poll(left_s and left_s * 1000) else b""
        while self.channel.orders:
            self._take(self.channel.orders.popleft())
        return [number for number in seen if number]

    def _take(self, order: _Strike) -> None:
        if order.code is None:
            self.is_over = True
        elif self.strike is None or order.at < self.strike.at:
            self.strike = order
