"""Work in a thread beside an event loop that may be busy: the loop gives way to it. Knows not what the work is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")

#: how long, and how often, a busy loop pauses for the thread
_BREATH_S = 0.0001
_BREATHS_EVERY_S = 0.001


def in_thread(work: Callable[..., T], *args: Any, executor: Executor | None = None) -> asyncio.Future[T]:
    """Run ``work`` in a thread of the executor, by default the loop's, and return the future of its result.

    As `loop.run_in_executor`, but for what a loop does that never rests. Such a loop gives the interpreter lock up for
    a moment at each look at its sockets, and has taken it back before the other thread has woken up; so the thread may
    stand still for many seconds. Here the loop sleeps for a tenth of a millisecond in each, until the work is done.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(executor, work, *args)
    loop.call_later(_BREATHS_EVERY_S, _give_way, loop, future)
    return future


def _give_way(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
    if not future.done():
        time.sleep(_BREATH_S)
        loop.call_later(_BREATHS_EVERY_S, _give_way, loop, future)
