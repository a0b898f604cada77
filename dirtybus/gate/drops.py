"""Drops: events that will not run, each told of once. It must never learn how the locker decides."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from graia.broadcast import Broadcast
from graia.broadcast.entities.event import Dispatchable
from loguru import logger

from dirtybus.errors import GateClosed
from dirtybus.events import EventDropped
from dirtybus.gate.policy import DropReason

__all__ = ["Drops", "Refusable"]


@runtime_checkable
class Refusable(Protocol):
    """An event that wants to know that it was refused."""

    def fail(self, error: BaseException) -> object: ...


class Drops:
    """Tells whoever should know that an event was dropped, once per event object.

    Args:
        on_drop: called with the event and the reason; what it raises is logged.
    """

    def __init__(self, on_drop: Callable[[Dispatchable, DropReason], object] | None) -> None:
        self._on_drop = on_drop
        # by id, as events need not be hashable; weak, so that the id of a dead event tells nothing
        self._told: weakref.WeakValueDictionary[int, Dispatchable] = weakref.WeakValueDictionary()

    def tell(self, event: Dispatchable, broadcast: Broadcast, reason: DropReason) -> bool:
        """Tell the event itself if it was refused, then ``on_drop``, then the bus.

        Nothing is posted for a cancelled one: its loop may be closing.

        Returns:
            Whether this was news.
        """
        if not self._is_news(event):
            return False
        if reason is DropReason.REFUSED and isinstance(event, Refusable):
            self._attempt(event.fail, _refusal_of(event))
        if self._on_drop is not None:
            self._attempt(self._on_drop, event, reason)
        if reason is not DropReason.CANCELLED:
            self._attempt(broadcast.postEvent, EventDropped(event, reason.value))
        return True

    def _is_news(self, event: Dispatchable) -> bool:
        if id(event) in self._told:
            return False
        # one whose type allows no weak reference cannot be remembered: each of its listeners makes news
        with contextlib.suppress(TypeError):
            self._told[id(event)] = event
        return True

    def _attempt(self, tell: Callable[..., object], *args: object) -> None:
        # a listener's mistake must not keep the locker from its books, nor the other listeners from the news
        try:
            tell(*args)
        except Exception:
            logger.exception("an event was dropped, and telling of it failed")


def _refusal_of(event: Dispatchable) -> GateClosed:
    name = type(event).__name__
    return GateClosed(
        f"{name} was refused: as many events are held as max_pending allows; post it later or raise max_pending",
        {"event": name, "reason": DropReason.REFUSED.value},
    )
