"""The guide: a service that awaits the demo's events, shows views of them meanwhile, and ends the application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from dirtybus.bus import DirtyBus
from dirtybus.demo.app import Verdict
from dirtybus.demo.loop_lag import LoopLag
from dirtybus.demo.talk import Talk
from dirtybus.demo.tally import Tally
from dirtybus.demo.view import Screen, View, WorkerView
from dirtybus.events import InferenceRequested, ShutdownRequested, WorkerReady
from dirtybus.services.base import DirtyService

__all__ = ["Guide"]

_DRAW_EVERY_S = 0.125


class Guide(DirtyService):
    """Leads through the demo.

    Args:
        bus: the bus that the events are posted on.
        screen: where views are shown until all is done.
        talk: what comes after the files; None if nobody can talk.
        on_finished: called when every event has its end; returns whether the application is to end now.
    """

    id = "dirtybus.demo"

    def __init__(self, bus: DirtyBus, screen: Screen, talk: Talk | None, on_finished: Callable[[], bool]) -> None:
        super().__init__()
        self.tally = Tally()
        self.lag = LoopLag()
        self._bus = bus
        self._screen = screen
        self._talk = talk
        self._on_finished = on_finished
        self._began_at = time.monotonic()
        self._events: list[InferenceRequested] = []
        self._outcomes: list[asyncio.Task[None]] = []
        self._watchers: list[asyncio.Task[None]] = []

    def post(self, events: Iterable[InferenceRequested]) -> None:
        """Put the events that ask for files on the bus."""
        for event in events:
            self._events.append(self._bus.post(event))
            self.tally.post()

    def note_ready(self, event: WorkerReady) -> None:
        """To be called when a worker is ready."""
        self.tally.note_ready(event.worker, event.pid)

    # --- the service ---

    async def start(self) -> None:
        self._outcomes = [asyncio.create_task(self._await(event)) for event in self._events]
        self._watchers = [asyncio.create_task(self.lag.run()), asyncio.create_task(self._draw())]

    async def watch(self) -> None:
        self.tally.note_open(time.monotonic())
        await asyncio.wait(self._outcomes)
        self._end_watching()
        if self._talk is not None:
            await self._listen(self._talk)
        if self._on_finished():
            self._bus.post(ShutdownRequested("the demo is over"))
        await super().watch()

    async def drain(self, within_s: float) -> None:
        # the gate has drained already, so each event has its end or will have it at once
        await asyncio.wait(self._outcomes, timeout=within_s)
        self._end_watching()

    # --- what it sees ---

    async def _await(self, event: InferenceRequested) -> None:
        try:
            verdict: Verdict = await event.outcome()
        except Exception as exc:
            self.tally.fail(exc)
        else:
            self.tally.answer_file(verdict["pid"], time.monotonic())

    async def _listen(self, talk: Talk) -> None:
        self.tally.post()
        try:
            await talk.listen(self._bus)
        except Exception as exc:
            self.tally.fail(exc)
        else:
            self.tally.answer()

    async def _draw(self) -> None:
        while True:
            self._screen.show(self._view())
            await asyncio.sleep(_DRAW_EVERY_S)

    def _end_watching(self) -> None:
        if self._watchers:
            self._screen.show(self._view())
        for watcher in self._watchers:
            watcher.cancel()
        self._watchers.clear()
        self._screen.close()

    def _view(self) -> View:
        now = time.monotonic()
        gate = self._bus.locker.snapshot()
        workers = self._bus.arbiter.status()["workers"]
        return View(
            elapsed_s=now - self._began_at,
            posted=self.tally.posted,
            settled=self.tally.settled,
            held=gate.pending,
            running=gate.running,
            files_per_s=self.tally.files_per_s,
            lag_now_s=self.lag.now_s,
            lag_worst_s=self.lag.worst_s,
            workers=tuple(
                WorkerView(number=each["worker"], pid=each["pid"], state=each["state"], answered=each["answered"])
                for each in workers
            ),
        )
