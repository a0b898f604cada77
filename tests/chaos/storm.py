"""The storm: an owner with its workers, callers inside and outside, and faults by a plan; then the reckoning."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.events import LifecycleEvent, WorkerExited, WorkerSpawned
from tests.chaos.apps import DEADLY, FAIR
from tests.chaos.asking import Asker, keep_asking
from tests.chaos.crowd import Crowd
from tests.chaos.faults import Code, Planned, World, plan_faults
from tests.chaos.journal import Journal
from tests.chaos.records import CallRecord, Outcome, merged
from tests.chaos.verdict import Breach, Rules, judge

__all__ = ["RULES", "Storm", "StormReport", "rage"]

_WORKERS = 3
_LOCAL_CALLERS = 28
_PEOPLE = ("tasks", "threads", "cutting")
#: what must be before the next fault: workers that are ready, local answers since the last, not too many under way
_RECYCLE = {"max_requests": 60, "max_requests_jitter": 30, "max_age": 2.0}
_MANNED, _ANSWERED, _UNDER_WAY = 2, 8, 8
_LEAVE_S = 2.0
RULES = Rules(patience_s=20.0, cancel_grace_s=0.3, margin_s=5.0, crash_limit=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What kind of storm: the same seed plans the same faults and draws the same calls.

    An ``elastic`` one rages over a pool that grows, shrinks and replaces its workers by itself meanwhile.
    """

    seconds: float
    seed: int
    faults_per_s: float = 4.0
    without: Collection[str] = frozenset()
    elastic: bool = False

    def plan(self) -> list[Planned]:
        return plan_faults(self.seed, self.seconds, per_s=self.faults_per_s, without=self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class StormReport:
    """What happened. ``left`` names what was not given back or did not go as it must, the counters count by name."""

    storm: Storm
    faults: Mapping[str, int]
    missed: Mapping[str, int]
    deaths: Mapping[str, int]
    calls: Mapping[str, Mapping[str, int]]
    ledger: Mapping[str, int]
    breaches: list[Breach]
    left: list[str]
    longest_stall_s: float

    @property
    def kills(self) -> int:
        return sum(self.deaths.values())

    @property
    def is_clean(self) -> bool:
        return not self.breaches and not self.left

    def count(self, what: str) -> int:
        return sum(breach.what == what for breach in self.breaches)


@dataclass(slots=True)
class _Diary:
    """What the arbiter said of its workers. A death is an end that was not a leaving."""

    pids: set[int] = field(default_factory=set)
    deaths: Counter[str] = field(default_factory=Counter)

    def note(self, event: LifecycleEvent) -> None:
        if isinstance(event, WorkerSpawned):
            self.pids.add(event.pid)
        elif isinstance(event, WorkerExited) and (event.signal or event.exit_code):
            self.deaths[event.reason] += 1


class _Weather:
    """One storm while it lasts."""

    def __init__(self, storm: Storm, place: Path, tell: Callable[[float, int, int], object]) -> None:
        self._storm = storm
        self._place = place
        self._tell = tell
        self._diary = _Diary()
        self._local: dict[str, CallRecord] = {}
        self._is_on = True
        self._answered = self._under_way = 0
        self._struck: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()
        self._left: list[str] = []
        code = Code(place)
        config = DirtyConfig.of(FAIR, DEADLY, **_settings(place, is_elastic=storm.elastic))
        arbiter = Arbiter(config, observer=self._diary.note)
        self._world = World(
            arbiter=arbiter,
            asker=Asker(arbiter, "local", self._write),
            crowd=Crowd(place / "storm.sock", place / "records", storm.seed),
            code=code,
            socket_path=place / "storm.sock",
            size=_WORKERS,
        )

    async def pass_over(self) -> None:
        """Start everything, rage for the time, and end everything."""
        arbiter, crowd = self._world.arbiter, self._world.crowd
        try:
            await arbiter.listen()
            await arbiter.start()
            arbiter.admit()
            await crowd.gather(*_PEOPLE)
            await self._rage()
            self._left += await crowd.dismiss(RULES.patience_s + 2 * RULES.margin_s)
            if not await arbiter.drain(_LEAVE_S + RULES.patience_s):
                self._left.append("calls that the drain had to cut")
        finally:
            crowd.kill()
            await arbiter.close()

    async def _rage(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            faults = tasks.create_task(self._strike_by_plan())
            for number in range(_LOCAL_CALLERS):
                name = f"local.{number}"
                numbers = random.Random(f"{self._storm.seed}/{name}")
                tasks.create_task(self._until_hung(keep_asking(self._world.asker, name, numbers, lambda: self._is_on)))
            await self._until_hung(_waited_for(faults))
            self._is_on = False

    async def _until_hung(self, waiting: Any) -> None:
        """Wait as long as any call may take; what is open then is left as it is, and its record says so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._storm.seconds + 2 * RULES.patience_s):
                await waiting

    async def _strike_by_plan(self) -> None:
        began_at = time.monotonic()
        async with asyncio.TaskGroup() as strikes:
            for planned in self._storm.plan():
                await asyncio.sleep(max(0.0, began_at + planned.at_s - time.monotonic()))
                if not await self._has_recovered_by(began_at + self._storm.seconds):
                    break
                self._under_way += 1
                strikes.create_task(self._strike(planned))
                self._tell(time.monotonic() - began_at, sum(self._diary.deaths.values()), len(self._local))
            await asyncio.sleep(max(0.0, began_at + self._storm.seconds - time.monotonic()))

    async def _has_recovered_by(self, at: float) -> bool:
        """Wait until workers are ready and calls answered: on a busy machine, faults by the clock come faster."""
        enough = self._answered + _ANSWERED
        while (
            self._answered < enough or self._under_way >= _UNDER_WAY or len(self._world.pids("idle", "busy")) < _MANNED
        ):
            if time.monotonic() >= at:
                return False
            await asyncio.sleep(0.01)
        return True

    async def _strike(self, planned: Planned) -> None:
        try:
            happened = await planned.strike(self._world)
        except Exception as exc:  # the arbiter did what it must not, or did not do what it must
            self._left.append(f"{planned.name} failed: {type(exc).__name__}: {exc}")
            return
        finally:
            self._under_way -= 1
        (self._struck if happened else self._missed)[planned.name] += 1

    def _write(self, record: CallRecord) -> None:
        self._local[record.token] = record
        self._answered += record.outcome is Outcome.ANSWER

    def reckon(self, ended_at: float) -> StormReport:
        """Say what happened, once everything has ended."""
        path = self._place / "records"
        outside = merged(path.read_text(encoding="utf-8").splitlines()) if path.exists() else []
        records = [*self._local.values(), *outside]
        verdict = judge(records, Journal.read(self._place / "journal"), ended_at=ended_at, rules=RULES)
        calls: dict[str, Counter[str]] = {}
        for record in records:
            calls.setdefault(record.kind, Counter())[record.outcome or "nothing"] += 1
        ledger = self._world.arbiter.ledger
        return StormReport(
            storm=self._storm,
            faults=self._struck,
            missed=self._missed,
            deaths=self._diary.deaths,
            calls=calls,
            ledger=ledger.as_mapping(),
            breaches=list(verdict.breaches),
            left=[*self._left, *_unbalanced(self._world.arbiter), *_living(self._diary.pids)],
            longest_stall_s=verdict.longest_stall_s,
        )


async def rage(
    storm: Storm, place: Path, *, tell: Callable[[float, int, int], object] = lambda *_: None
) -> StormReport:
    """Let a storm pass over and reckon up.

    Args:
        storm: which one.
        place: an empty directory for the socket, the journal and the records.
        tell: told now and then of the seconds, the deaths and the local calls so far.
    """
    me = psutil.Process()
    descriptors, children = me.num_fds(), {child.pid for child in me.children(recursive=True)}
    weather = _Weather(storm, place, tell)
    await weather.pass_over()
    report = weather.reckon(time.monotonic())
    if (now := me.num_fds()) > descriptors:
        report.left.append(f"{now - descriptors} file descriptors")
    for child in me.children(recursive=True):
        if child.pid not in children:
            report.left.append(f"process {child.pid}, {child.status()}")
    return report


def _settings(place: Path, *, is_elastic: bool) -> dict[str, Any]:
    moving = {"pool_size": (2, _WORKERS + 2), "scale_up_after": 0.01, "max_idle_time": 0.1, "recycle": _RECYCLE}
    return {
        **(moving if is_elastic else {"workers": _WORKERS}),
        "threads": 2,
        "timeout": 0,
        "socket": str(place / "storm.sock"),
        "pythonpath": [str(place), str(Path(__file__).parents[2])],
        # a module that changes twice in a second must not be read from a cache
        "env": {"STORM_JOURNAL": str(place / "journal"), "PYTHONDONTWRITEBYTECODE": "1"},
        "cancel_grace": RULES.cancel_grace_s,
        "crash_limit": RULES.crash_limit,
        "heartbeat_timeout": 2.0,
        "graceful_timeout": _LEAVE_S,
        "boot_timeout": 20.0,
        "restart_delay": 0.01,
        "restart_delay_max": 0.25,
        "healthy_after": 0.2,
        "max_restarts": 0,
    }


async def _waited_for(task: asyncio.Task[None]) -> None:
    await task


def _unbalanced(arbiter: Arbiter) -> list[str]:
    try:
        arbiter.ledger.check()
    except AssertionError as exc:
        return [str(exc)]
    return [f"{arbiter.ledger.open} open calls in the ledger"] if arbiter.ledger.open else []


def _living(pids: Collection[int]) -> list[str]:
    """Name the workers that outlived their owner's end."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE or "dirtybus.worker" in process.cmdline():
                found.append(
                    f"worker process {pid}, {process.status()}, child of {process.ppid()} (we are {os.getpid()})"
                )
    return found
