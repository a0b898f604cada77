"""The event loop of a process that launart has to itself: run to the end, then emptied. Knows no service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from creart import it
from loguru import logger

__all__ = ["cached_loop", "close_loop", "run_to_end"]


def cached_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that graia's libraries share through creart."""
    return it(asyncio.AbstractEventLoop)  # type: ignore[type-abstract]


def run_to_end(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, object],
    *,
    on_exit: Callable[[SystemExit | KeyboardInterrupt], object],
) -> None:
    """Run the coroutine in the loop until it ends, even if some task calls ``sys.exit`` meanwhile.

    Args:
        loop: it must not run yet.
        coroutine: what to run.
        on_exit: called between two runs of the loop with what a task raised to end the process.

    Raises:
        Exception: whatever the coroutine raises.
    """
    main = loop.create_task(coroutine, name="dirtybus-launch")
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            on_exit(error)
    main.result()


def close_loop(loop: asyncio.AbstractEventLoop, *, within_s: float) -> None:
    """Cancel every task that is left, for at most ``within_s`` seconds, and end async generators and the executor.

    Threads of the executor are waited for without an end. The loop is not closed, as creart keeps it; it has no
    default executor any more.
    """
    loop.run_until_complete(_cancel_leftovers(within_s))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)


async def _cancel_leftovers(within_s: float) -> None:
    leftovers = asyncio.all_tasks() - {asyncio.current_task()}
    if not leftovers:
        return
    for task in leftovers:
        task.cancel()
    ended, stubborn = await asyncio.wait(leftovers, timeout=within_s)
    for task in ended:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.opt(exception=error).error("{} failed while it was cancelled", task.get_name())
    for task in stubborn:
        logger.warning("{} does not end though it was cancelled; it is left behind", task.get_name())
