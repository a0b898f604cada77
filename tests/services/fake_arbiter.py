"""An arbiter without workers: it only says what it was told to do, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from dirtybus.arbiter.ledger import Ledger
from dirtybus.config import DirtyConfig
from dirtybus.pool.placement import why_not


@dataclass
class FakeArbiter:
    """Fits every Protocol that the services consume. ``say`` gets one line for each order."""

    say: Callable[[str], object]
    target: int = 2
    boot_s: float = 0.0
    boot_error: Exception | None = None
    watch_s: float | None = None
    #: how long the calls in progress take; the drain waits for them, or cuts them
    work_s: float = 0.0
    deaf: bool = False
    kills: int = 0
    #: the fewest workers that it can do with
    smallest: int = 1
    #: of each reload in turn: an error that it raises, or None
    reload_errors: list[Exception | None] = field(default_factory=list)
    #: reloads wait for this
    may_reload: asyncio.Event = field(default_factory=asyncio.Event)
    reloading: asyncio.Event = field(default_factory=asyncio.Event)
    reloaded_with: list[DirtyConfig | None] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    is_ready: bool = False
    draining: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        self.say("arbiter listens")

    async def start(self) -> None:
        self.say("workers start")
        await asyncio.sleep(self.boot_s)
        if self.boot_error is not None:
            raise self.boot_error
        self.say("workers ready")

    def admit(self) -> None:
        self.is_ready = True
        self.say("admission open")

    def stand_down(self) -> None:
        self.is_ready = False

    def close_admission(self) -> None:
        self.say("admission closed")

    async def watch(self) -> None:
        if self.watch_s is None:
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(self.watch_s)

    async def drain(self, within_s: float) -> bool:
        self.draining.set()
        while self.deaf:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.say("workers deaf")
        await asyncio.sleep(min(self.work_s, within_s))
        is_clean = self.work_s <= within_s
        self.say(f"workers drained clean={is_clean}")
        return is_clean

    async def close(self) -> None:
        self.say("arbiter closed")

    def kill(self) -> None:
        self.kills += 1
        self.say("arbiter killed")

    def resize(self, workers: int, app: str | None = None) -> int:
        self.target = workers
        self.say(f"resized to {workers}" if app is None else f"resized {app} to {workers}")
        return workers

    def bound(self, least: int, most: int) -> None:
        self.say(f"bound to {least}-{most}")

    def why_not(self, workers: int) -> str | None:
        return why_not(workers, self.smallest)

    def reopen_logs(self) -> None:
        self.say("logs of workers reopened")

    async def reload(self, config: DirtyConfig | None = None) -> None:
        self.say("reload began")
        self.reloading.set()
        await self.may_reload.wait()
        self.reloaded_with.append(config)
        error = self.reload_errors.pop(0) if self.reload_errors else None
        if error is not None:
            raise error
        self.say("reloaded")
