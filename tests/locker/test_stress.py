"""Thousands of events whose parts fail in every way graia lets them: afterwards every slot is back."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from graia.broadcast.entities.dispatcher import BaseDispatcher
from graia.broadcast.interfaces.dispatcher import DispatcherInterface

from dirtybus.locker import ProcessLocker

from .bench import LONG_PATIENCE_S, PATIENCE_S, PLACES, Bench, Ping, Pong, assert_at_rest, depend, turns

EVENTS = 1000
LIMIT = 5


class TaskBook(BaseDispatcher):
    """Notes the task of every execution, of which graia itself keeps no list."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()

    async def catch(self, interface: DispatcherInterface[Any]) -> None:
        return None

    async def beforeExecution(self, interface: DispatcherInterface[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Chaos:
    """Listeners that fail, nest, suspend and cancel by the dice of one seed."""

    def __init__(self, bench: Bench, dice: random.Random) -> None:
        self.bench, self.dice = bench, dice
        self.ran = 0
        self.over = False
        self.book = TaskBook()
        bench.broadcast.prelude_dispatchers.insert(1, self.book)
        bench.on(Ping)(self._ping())
        bench.on(Ping, priority=20)(self._plain())
        bench.on(Pong)(self._plain())

    def stumble(self, chance: float) -> None:
        if self.dice.random() < chance:
            raise LookupError("a stumble")

    def _ping(self) -> Any:
        async def need() -> int:
            self.stumble(0.05)
            await turns(self.dice.randrange(3))
            return 1

        async def borrow(needed: int = depend(need)) -> AsyncIterator[int]:
            yield needed
            self.stumble(0.05)

        async def listener(borrowed: int = depend(borrow)) -> None:
            await self._misbehave()

        return listener

    def _plain(self) -> Any:
        async def listener() -> None:
            self.ran += 1
            self.bench.locker._permits.check_invariants()
            self.stumble(0.05)
            await turns(self.dice.randrange(3))

        return listener

    async def _misbehave(self) -> None:
        self.ran += 1
        self.bench.locker._permits.check_invariants()
        await turns(self.dice.randrange(4))
        self.stumble(0.05)
        match self.dice.randrange(10):
            case 0:
                await self.bench.post(Pong())
            case 1:
                self.bench.post(Pong())
            case 2:
                async with self.bench.locker.suspended():
                    await turns(self.dice.randrange(6))
                    self.stumble(0.2)
            case 3:
                async with self.bench.locker.suspended():
                    await self.bench.post(Pong())
            case 4 if self.dice.random() < 0.3:
                raise asyncio.CancelledError
            case 5:
                await self.bench.broadcast.Executor(self._plain())

    async def strike(self, posted: list[asyncio.Task[None]], chance: float) -> None:
        """Cancel executions and postings at random until told to stop."""
        while not self.over:
            for victims in (sorted(self.book.tasks, key=id), posted[-50:]):
                if victims and self.dice.random() < chance:
                    self.dice.choice(victims).cancel()
            await turns(1)


@pytest.mark.slow
@pytest.mark.timeout(160)
@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer makes it take minutes")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("cancels", [0.0, 0.3])
async def test_after_any_mishap_every_slot_is_back(
    place: str, cancels: float, capfd: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(f"{place} {cancels}")
    locker = ProcessLocker(LIMIT, max_pending=400, overflow="drop_old", hold_timeout_s=30)
    bench = Bench(locker, place)
    chaos = Chaos(bench, dice)
    posted: list[asyncio.Task[None]] = []
    striker = asyncio.create_task(chaos.strike(posted, cancels))
    for number in range(EVENTS):
        posted.append(bench.post(Ping(number)))
        if number % 97 == 50:
            locker.close()
        if number % 97 == 70:
            locker.open()
        await turns(dice.randrange(12))
    locker.open()
    await bench.finish(posted, within_s=LONG_PATIENCE_S)
    assert await locker.drain(PATIENCE_S)
    chaos.over = True
    await striker
    await bench.finish(list(chaos.book.tasks))
    capfd.readouterr()  # graia prints every error of a listener
    assert chaos.ran > EVENTS / 3
    assert locker.counters["recovered"] > 0
    assert_at_rest(locker)
