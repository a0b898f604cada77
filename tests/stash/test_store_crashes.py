"""Owners that end at any moment: what was answered is there again, and nothing is half there."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import subprocess
import sys
import time
from pathlib import Path
from select import select
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.config.stash import StashConfig
from dirtybus.errors import DirtyError, StashError
from dirtybus.stash import host, recorder
from dirtybus.stash.host import StashHost
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply, body_of
from dirtybus.stash.store_sqlite import SqliteStore
from dirtybus.stash.writer import StashWriter
from tests.stash.hosting import hosted
from tests.stash.model import Model, Refused, same
from tests.stash.replay import check
from tests.stash.test_world import RULES, Chance, said

ROOT = Path(__file__).parents[2]
LANES = 3
WITHIN_S = 30.0


def _killed_at_some_moment(path: Path, acknowledgements: int) -> tuple[int, dict[int, int]]:
    """Return the version it began with, and the last number that each lane had acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.stash.crashing", str(path), str(LANES)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert child.stdout is not None
    with child.stdout as lines:
        assert select([lines], [], [], WITHIN_S)[0]
        first = lines.readline().split()
        acknowledged: dict[int, int] = {}
        for _ in range(acknowledgements):
            assert select([lines], [], [], WITHIN_S)[0]
            lane, number = map(int, lines.readline().split())
            acknowledged[lane] = number
        child.kill()
        assert child.wait(WITHIN_S) == -9
        rest = lines.read().splitlines(keepends=True)
    for line in rest:
        if line.endswith(b"\n"):
            lane, number = map(int, line.split())
            acknowledged[lane] = number
    return int(first[1]), acknowledged


async def _check(path: Path, acknowledged: dict[int, int]) -> int:
    async with hosted(str(path)) as at:
        for lane in range(LANES):
            number = await at.aio.get("numbers", lane, 0)
            assert number >= acknowledged.get(lane, 0)
            assert await at.aio.get("twins", lane, 0) == number  # a transaction is never half there
            log = await at.aio.get("log", lane, [])
            assert log == list(range(1, len(log) + 1))
            assert number - 1 <= len(log) <= number
            assert len(log) >= acknowledged.get(lane, 0)
        return at.keeper.state.tables.book.version


async def _kill_again_and_again(path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    last: dict[int, int] = {}
    version = 0
    for _ in range(rounds):
        began, acknowledged = await asyncio.to_thread(_killed_at_some_moment, path, chance.randint(1, 60))
        assert began > version
        last |= acknowledged
        version = await _check(path, last)
        assert version > began


async def test_what_was_acknowledged_outlives_kill_9(tmp_path: Path) -> None:
    await _kill_again_and_again(tmp_path / "s", 20)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_was_acknowledged_outlives_kill_9_for_long(tmp_path: Path) -> None:
    await _kill_again_and_again(tmp_path / "s", 200)


# --- any operations, and restarts at any moment ---


class Clock:
    """The keeper's clock, which begins anew with each owner, and the wall's, which is set now and then."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.began = 0.0

    def monotonic(self) -> float:
        return self.wall - self.began


class Life:
    """Owners of one file, one after the other, and a model that lives on. The model's time is the wall's."""

    def __init__(self, path: str, config: StashConfig, kept: set[str]) -> None:
        self.config = config
        self.kept = kept
        self.clock = Clock()
        self.model = Model(dict(config.tables), None)
        self.store = SqliteStore(path)
        self.version = 0
        self.writers: list[StashWriter] = []

    async def begin(self) -> None:
        self.clock.began = self.clock.wall - 50.0
        self.keeper = Keeper(self.config, clock=self.clock.monotonic, first_version=0)
        self.host = StashHost(self.keeper, self.store)
        await self.host.start()
        self.host._sweeper.stop()  # its moments are the test's

    async def ask(self, op: object) -> None:
        answered = asyncio.Event()
        answers: list[StashReply | DirtyError] = []

        def settle(answer: StashReply | DirtyError) -> None:
            answers.append(answer)
            answered.set()

        self.keeper.submit(op, "me", settle)  # type: ignore[arg-type]
        async with asyncio.timeout(WITHIN_S):
            await answered.wait()
        try:
            expected = self.model.do(op, self.clock.wall)  # type: ignore[arg-type]
        except Refused:
            assert isinstance(answers[0], StashError)
            return
        if isinstance(answers[0], DirtyError):
            raise answers[0]
        if "Ttl" not in repr(op) and type(op).__name__ != "Transact":
            assert said(op, answers[0]) == expected  # type: ignore[arg-type]

    def sweep(self) -> None:
        while self.keeper.sweep():
            pass
        self.model.sweep(self.clock.wall)

    async def crash(self, later_s: float) -> None:
        """End without a word, once all that was answered is written, and begin anew, later by the wall's clock."""
        self.sweep()
        tables = self.keeper.state.tables
        of_kept = [
            entry for name in self.kept if (table := tables.find(name)) for _, _, entry in table.entries.after(None)
        ]
        self.version = max([self.version, *(entry.version for entry in of_kept)])
        writer = self.host._writer
        assert writer is not None
        self.writers.append(writer)
        await asyncio.to_thread(writer.close, WITHIN_S)
        self.keeper.close()
        self.clock.wall += later_s
        await self.begin()
        for name in [name for name in self.model.shelves if name not in self.kept]:
            del self.model.shelves[name]
        for shelf in self.model.shelves.values():
            for cell in shelf.cells.values():
                cell.used_at = self.clock.wall
                cell.expires_at = min(cell.expires_at, self.clock.wall + cell.ttl_s)
        self.sweep()

    def compare(self) -> None:
        tables = self.keeper.state.tables
        check(tables)
        assert tables.names() == sorted(self.model.shelves)
        assert tables.book.version >= self.version
        now = self.clock.monotonic()
        for name, shelf in self.model.shelves.items():
            table = tables.get(name)
            assert table.rules == shelf.rules
            found = {key: entry for _, key, entry in table.entries.after(None) if entry.due_at > now}
            cells = {key: cell for key, cell in shelf.cells.items() if cell.due_at > self.clock.wall}
            assert found.keys() == cells.keys()
            for key, cell in cells.items():
                entry = found[key]
                assert same(body_of(entry.value)) == same(cell.value)
                assert (entry.ttl_s, entry.idle_s) == (cell.ttl_s, cell.idle_s)
                assert entry.version <= tables.book.version
                assert entry.expires_at - now == pytest.approx(cell.expires_at - self.clock.wall, abs=1e-3)


async def _live(path: str, seed: int) -> None:
    chance = random.Random(seed)
    # the settings have nothing to say of "plain": they would count more than rules that were given later
    rules = {"spans": RULES["spans"], "cache": dataclasses.replace(RULES["plain"], durability="none")}
    config = StashConfig(persist="a fake", durability=chance.choice(["sync", "async"]), tables=rules, max_bytes=None)
    life = Life(path, config, {"plain", "spans"})
    maker = Chance(chance, ["plain", "spans", "cache"])
    its_time = mock.Mock(time=lambda: life.clock.wall, monotonic=time.monotonic)
    with mock.patch.object(recorder, "time", its_time), mock.patch.object(host, "time", its_time):
        await life.begin()
        for _ in range(60):
            life.clock.wall += chance.choice([0.25, 0.25, 1.0, 9.0])
            if chance.random() < 0.1:
                await life.crash(chance.choice([-30.0, 0.0, 3.0, 8.0]))
                life.compare()
            elif chance.random() < 0.1:
                life.sweep()
            else:
                await life.ask(maker.op())
        await life.crash(-1.0)
        life.compare()
        await life.host.stop(WITHIN_S)
    assert all(not writer._thread.is_alive() for writer in life.writers)


@settings(max_examples=40)
@given(st.integers(0, 2**64))
def test_the_tables_after_any_crash_are_those_before(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    asyncio.run(_live(str(tmp_path_factory.mktemp("life") / "s"), seed))
