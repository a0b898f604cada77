from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from dirtybus.arbiter.ledger import Entry
from dirtybus.arbiter.roll import WorkerRecord
from dirtybus.arbiter.spawner import Child
from dirtybus.arbiter.vigil import Vigil
from dirtybus.pool.model import CallId, WorkerId
from tests.arbiter.serving import until

TIMEOUT_S = 0.06


class Patient:
    """A process of which only the pulse is known."""

    def __init__(self, *, lives: bool) -> None:
        self.lives = lives
        self.asked = 0
        self.owes = False

    def feel_pulse(self) -> None:
        self.asked += 1
        self.owes = True

    def had_pulse(self) -> bool:
        had, self.owes = self.owes and self.lives, self.owes and not self.lives
        return had


class Ward:
    def __init__(self, **patients: bool) -> None:
        self.patients = {name: Patient(lives=lives) for name, lives in patients.items()}
        self.records = [
            WorkerRecord(
                WorkerId(n),
                (name,),
                0.0,
                child=cast("Child", patient),
                calls={CallId(n): Entry(CallId(n), name, "go", 0.0)},
            )
            for n, (name, patient) in enumerate(self.patients.items())
        ]
        self.silent: list[str] = []
        self.vigil = Vigil(self.records, TIMEOUT_S, self.note)

    def note(self, record: WorkerRecord) -> None:
        self.silent.append(record.apps[0])
        record.calls.clear()


async def test_only_who_does_not_answer_is_told_of() -> None:
    ward = Ward(dead=False, alive=True)
    began_at = asyncio.get_running_loop().time()
    ward.vigil.begin()
    ward.vigil.begin()
    await until(lambda: ward.silent)
    assert asyncio.get_running_loop().time() - began_at >= TIMEOUT_S
    asked = ward.patients["alive"].asked
    await until(lambda: ward.patients["alive"].asked > asked + 5)
    assert ward.silent == ["dead"]
    assert ward.patients["dead"].asked == 1, "one question is enough"
    ward.vigil.end()


async def test_whoever_speaks_is_alive() -> None:
    ward = Ward(talker=False)
    ward.vigil.begin()
    for _ in range(40):
        await asyncio.sleep(TIMEOUT_S / 10)
        ward.records[0].unanswered = 0  # a message came
    assert ward.silent == []
    await until(lambda: ward.silent)
    ward.vigil.end()


async def test_a_look_that_comes_late_proves_nothing() -> None:
    ward = Ward(slow=False)
    ward.vigil.begin()
    await until(lambda: ward.patients["slow"].asked)
    # the owner was asleep, and the workers perhaps with it
    time.sleep(TIMEOUT_S * 3)  # noqa: ASYNC251
    await asyncio.sleep(0)
    assert ward.silent == []
    ward.patients["slow"].lives = True
    await until(lambda: ward.patients["slow"].asked == 3)
    assert ward.silent == []
    ward.vigil.end()


async def test_while_no_worker_has_a_call_nothing_is_due() -> None:
    ward = Ward(idle=False)
    ward.records[0].calls.clear()
    ward.vigil.begin()
    await until(lambda: not timers(ward.vigil))
    assert ward.patients["idle"].asked == 0
    assert ward.silent == []


async def test_without_a_timeout_nobody_is_watched() -> None:
    vigil = Vigil([], None, print)
    vigil.begin()
    assert not timers(vigil)


def timers(vigil: Vigil) -> list[Any]:
    """Return what the loop has to do for ``vigil`` later."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [handle for handle in scheduled if getattr(handle._callback, "__self__", None) is vigil]
