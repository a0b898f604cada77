"""The event loop of a worker, in a thread of its own, made when the first async action needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["SideLoop"]


class SideLoop:
    """Runs coroutines beside the threads that run sync actions.

    Args:
        on_start: told before the loop runs.
    """

    def __init__(self, on_start: Callable[[], object]) -> None:
        self._on_start = on_start
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; the first look starts it (and loads asyncio: 45 ms that sync workers save)."""
        with self._lock:
            if self._loop is None:
                import asyncio

                self._on_start()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="dirtybus-loop", daemon=True)
                self._thread.start()
            return self._loop

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run ``function`` in the loop's thread."""
        self.loop.call_soon_threadsafe(function, *args)

    def wait_for(self, awaitable: Any) -> Any:
        """Block this thread until the awaitable is done on the loop; return or raise its outcome."""
        import asyncio

        async def outcome() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(outcome(), self.loop).result()

    def close(self, timeout_s: float) -> None:
        """Stop the loop and wait for its thread."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)
