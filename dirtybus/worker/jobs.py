"""One call inside a worker: its context, its credits, whether it is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dirtybus.app import CallContext
from dirtybus.protocol.frames import Buffer
from dirtybus.protocol.heads import Call

if TYPE_CHECKING:
    import asyncio

__all__ = ["Credits", "Job"]


class Credits:
    """How many chunks the reader still takes. Taken by the action's thread or task, given by the link's thread."""

    def __init__(self, window: int) -> None:
        self._left = window
        self._changed = threading.Condition()
        self._closed = False
        self._wake: Callable[[], object] | None = None
        self._on_change: Callable[[], object] | None = None

    def give(self, chunks: int) -> None:
        """Add ``chunks``; wakes whoever waits."""
        with self._changed:
            self._left += chunks
            self._notify()

    def close(self) -> None:
        """Nobody reads any more; wakes whoever waits, now and from now on."""
        with self._changed:
            self._closed = True
            self._notify()

    def take(self, read: Callable[[], bool]) -> bool:
        """Block until a chunk may be sent; False when nobody reads any more.

        ``read`` takes what comes on the link; it returns False when another thread does.
        """
        while not self._is_ready() and read():
            pass
        with self._changed:
            self._changed.wait_for(self._is_ready)
            return self._take()

    def watch(self, on_change: Callable[[], object]) -> None:
        """Have ``on_change`` called, from any thread, whenever there are more, or nobody reads any more."""
        with self._changed:
            self._on_change = on_change

    def take_now(self) -> bool:
        """Take one for a chunk, if that may be sent now."""
        with self._changed:
            return self._is_ready() and self._take()

    async def take_async(self, loop: asyncio.AbstractEventLoop) -> bool:
        """As `take`, without blocking the loop."""
        while True:
            with self._changed:
                if self._is_ready():
                    return self._take()
                woken = loop.create_future()
                self._wake = partial(loop.call_soon_threadsafe, _wake_up, woken)
            await woken

    def _is_ready(self) -> bool:
        return self._left > 0 or self._closed

    def _take(self) -> bool:
        if self._closed:
            return False
        self._left -= 1
        return True

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._on_change is not None:
            self._on_change()
        if self._wake is not None:
            self._wake()
            self._wake = None


def _wake_up(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class Job:
    """A call that this worker has accepted."""

    __slots__ = ("_credits", "cancel_task", "context", "head", "id", "is_settled", "payload")

    def __init__(self, call_id: int, head: Call, payload: Buffer, context: CallContext) -> None:
        self.id = call_id
        self.head = head
        self.payload = payload
        self.context = context
        self.is_settled = False
        #: set while the job runs as a task: cancels it, from any thread
        self.cancel_task: Callable[[], object] | None = None
        self._credits: Credits | None = None

    @property
    def credits(self) -> Credits:
        """The credits of its stream; made when the first chunk wants to leave, as most calls have none."""
        if self._credits is None:
            self._credits = Credits(self.head.window)
            if self.context._cancelled:  # noqa: SLF001 - cancelled before it streamed
                self._credits.close()
        return self._credits

    def cancel_with(self, cancel: Callable[[], object]) -> None:
        """Have ``cancel`` called, from any thread, when nobody waits any more."""
        self.cancel_task = cancel

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller has left, as far as this process has heard."""
        return self.context._cancelled  # noqa: SLF001 - the context is ours to set, the action's to read

    def cancel(self) -> None:
        """Tell the action that nobody waits: its token is set, its credits end, its task is cancelled."""
        self.context._cancelled = True  # noqa: SLF001 - the context is ours to set, the action's to read
        if self._credits is not None:
            self._credits.close()
        if self.cancel_task is not None:
            self.cancel_task()
