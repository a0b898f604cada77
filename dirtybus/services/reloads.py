"""The reloads: one runs, one may wait, and whoever asks meanwhile joins that one. Knows not what is reloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dirtybus.errors import DirtyError, Draining

__all__ = ["Reloads"]


class Reloads:
    """Runs reloads one after another, each as a task of its own.

    A reload takes what is there when it begins, so it serves everybody who asked before that.

    Args:
        run: does one reload; raises why it failed.
        on_ended: told of each outcome, None when it succeeded.
    """

    def __init__(self, run: Callable[[], Awaitable[object]], on_ended: Callable[[DirtyError | None], object]) -> None:
        self._run = run
        self._on_ended = on_ended
        self._running: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None
        #: of the reload that did not begin yet
        self._next: asyncio.Future[DirtyError | None] | None = None
        self._outcomes: set[asyncio.Future[DirtyError | None]] = set()
        self._is_ended = False

    def ask(self) -> asyncio.Future[DirtyError | None]:
        """Have a reload begin after now; its outcome comes as a result, never as an exception."""
        loop = asyncio.get_running_loop()
        if self._is_ended:
            refused: asyncio.Future[DirtyError | None] = loop.create_future()
            self._settle(refused, Draining("the application is about to end: there is no reload any more"))
            return refused
        if self._next is None:
            self._next = loop.create_future()
            self._outcomes.add(self._next)
            self._waiting = loop.create_task(self._run_after(self._running, self._next), name="dirtybus reload")
        return self._next

    async def end(self) -> None:
        """Give up what runs and waits; whoever waits for it, and whoever asks from now on, gets `Draining`."""
        self._is_ended = True
        tasks = [task for task in (self._running, self._waiting) if task is not None]
        for outcome in list(self._outcomes):
            self._settle(outcome, Draining("the application is about to end: the reload was given up"))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run_after(self, previous: asyncio.Task[None] | None, outcome: asyncio.Future[DirtyError | None]) -> None:
        if previous is not None:
            await asyncio.wait({previous})
        self._running, self._waiting, self._next = self._waiting, None, None
        try:
            await self._run()
        except DirtyError as exc:
            self._settle(outcome, exc)
        except Exception as exc:
            error = DirtyError(f"the reload failed: {type(exc).__name__}: {exc}")
            error.__cause__ = exc
            self._settle(outcome, error)
        else:
            self._settle(outcome, None)

    def _settle(self, outcome: asyncio.Future[DirtyError | None], error: DirtyError | None) -> None:
        self._outcomes.discard(outcome)
        if not outcome.done():
            outcome.set_result(error)
            self._on_ended(error)
