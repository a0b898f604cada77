"""How a client goes on when its arbiter does not: it makes the `Tries` of each call, and counts what became of them."""

from __future__ import annotations

import threading
import time

from dirtybus.client.acquaintance import Acquaintance
from dirtybus.client.patience import Patience
from dirtybus.client.tries import Tries
from dirtybus.errors import DirtyError

__all__ = ["Stamina"]


class Stamina:
    """Shared by all threads and loops of a client. ``reconnect_s`` as for `Tries`."""

    def __init__(self, reconnect_s: float) -> None:
        self.reconnect_s = reconnect_s
        self.resent = 0
        self.unknown = 0
        self._lock = threading.Lock()

    @property
    def reconnects(self) -> bool:
        """Whether calls are sent to another arbiter at all."""
        return self.reconnect_s > 0

    def tries(self, app: str, action: str, timeout_s: float | None, priority: int | None = None) -> Tries:
        """Return the tries of a new call."""
        return Tries(app, action, timeout_s, self.reconnect_s, time.monotonic(), priority=priority)

    def begin(self, tries: Tries) -> Patience:
        """As `Tries.begin`, for a try that begins now."""
        patience = tries.begin(time.monotonic())
        if tries.resent:
            with self._lock:
                self.resent += 1
            _log("%s %s is sent again, for the %s. time", tries.app, tries.action, tries.resent)
        return patience

    def pause_s(self, tries: Tries, error: DirtyError, peer: Acquaintance | None) -> float:
        """As `Tries.pause_s`, for a try that failed now.

        Args:
            tries: those of the call.
            error: how the last one failed.
            peer: whom it was sent to; None when nobody was reached.
        """
        may_repeat = peer is not None and (tries.app, tries.action) in peer.idempotent
        try:
            return tries.pause_s(error, time.monotonic(), may_repeat=may_repeat)
        finally:
            if tries.is_unknown:
                with self._lock:
                    self.unknown += 1


def _log(text: str, *args: object) -> None:
    # the standard library's: unlike loguru's, its debug records go nowhere unless the program wants them
    import logging

    logging.getLogger("dirtybus.client").debug(text, *args)
