"""News: events that services tell and hear. Knows no event's meaning."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from graia.broadcast import Broadcast
from graia.broadcast.entities.event import Dispatchable
from loguru import logger

from dirtybus import log

__all__ = ["listening", "tell"]


async def tell(broadcast: Broadcast, event: Dispatchable, *, within_s: float) -> bool:
    """Post the event and wait until its listeners have ended, for at most ``within_s`` seconds.

    What a listener raises is graia's to report. Cancelling leaves the listeners running.

    Returns:
        True when the listeners ended in time.
    """
    posted = broadcast.postEvent(event)
    done, _ = await asyncio.wait({posted}, timeout=within_s)
    if not done:
        logger.warning("listeners of {} still run after {:.1f} s: going on without them", event, within_s)
        return False
    if not posted.cancelled() and (error := posted.exception()) is not None:
        log.error(error, "{} could not be posted: {}", type(event).__name__, error)
    return True


@contextlib.contextmanager
def listening(broadcast: Broadcast, event: type[Dispatchable], listener: Callable[..., object]) -> Iterator[None]:
    """Have ``listener`` called for each such event as long as the block runs."""
    broadcast.receiver(event)(listener)
    registered = next(each for each in broadcast.listeners if each.callable == listener)
    try:
        yield
    finally:
        # the user may have cleared the listeners meanwhile
        if registered in broadcast.listeners:
            broadcast.listeners.remove(registered)
