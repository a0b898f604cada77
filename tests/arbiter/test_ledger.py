from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.arbiter.audit import check_books
from dirtybus.arbiter.crew import Crew
from dirtybus.arbiter.ledger import Ledger
from dirtybus.errors import CallCancelled, DirtyError, DirtyTimeoutError, Draining, WorkerLost
from dirtybus.pool.model import CallId
from tests.arbiter.serving import BASIC, serving, until

OUTCOMES: dict[str, DirtyError | None] = {
    "succeeded": None,
    "failed": DirtyError("no"),
    "cancelled": CallCancelled("no"),
    "expired": DirtyTimeoutError("late", 1.0),
    "refused": Draining("not now"),
    "lost": WorkerLost("dead", 1),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_call_has_an_entry_with_its_times_and_the_count_that_it_is_in(outcome: str) -> None:
    ledger = Ledger()
    ledger.accept(CallId(1), "m:A", "go", 1.0).start(1, 2.0)
    (entry,) = ledger.open_entries()
    entry.start(2, 3.0)
    assert (entry.outcome, ledger.oldest_s(5.0)) == (None, 4.0)
    ledger.settle(CallId(1), OUTCOMES[outcome], 6.0)
    (entry,) = ledger.entries()
    assert (entry.app, entry.action, entry.attempts, entry.outcome) == ("m:A", "go", 2, outcome)
    assert (entry.accepted_at, entry.started_at, entry.runs_since, entry.settled_at) == (1.0, 2.0, 3.0, 6.0)
    assert {name for name, count in ledger.as_mapping().items() if count} == {"submitted", outcome}
    assert (ledger.open_entries(), ledger.oldest_s(7.0)) == ((), None)
    ledger.check()


def test_a_call_is_settled_once() -> None:
    ledger = Ledger()
    ledger.accept(CallId(1), "m:A", "go", 0.0)
    ledger.settle(CallId(1), None, 1.0)
    with pytest.raises(KeyError):
        ledger.settle(CallId(1), None, 2.0)


def test_the_last_thousand_settled_calls_are_remembered_and_all_open_ones() -> None:
    ledger = Ledger()
    for number in range(3000):
        ledger.accept(CallId(number), "m:A", "go", 0.0)
        if number % 2:
            ledger.settle(CallId(number), None, 1.0)
    assert [entry.id for entry in ledger.entries()] == [*range(1001, 3000, 2), *range(0, 3000, 2)]
    ledger.check()


async def test_an_entry_of_a_real_call_knows_its_attempts_and_that_it_waited(tmp_path: Path) -> None:
    async with serving() as arbiter:
        assert await arbiter.call(BASIC, "die_once", str(tmp_path / "died")) == 2
        (entry,) = arbiter.ledger.entries()
        assert (entry.action, entry.attempts, entry.outcome) == ("die_once", 2, "succeeded")
        assert entry.started_at is not None
        assert entry.runs_since is not None
        assert entry.settled_at is not None
        assert entry.accepted_at <= entry.started_at < entry.runs_since < entry.settled_at


async def test_the_status_tells_which_call_is_stuck_though_its_caller_was_told() -> None:
    async with serving() as arbiter:
        with pytest.raises(DirtyTimeoutError):
            await arbiter.call(BASIC, "sleep", 60, timeout_s=0.1)
        waiting = asyncio.create_task(arbiter.call(BASIC, "echo", 1))
        await until(lambda: arbiter.ledger.open)
        told = arbiter.status()
        (call,) = told["workers"][0]["calls"]
        assert (call["app"], call["action"], call["attempt"], call["outcome"]) == (BASIC, "sleep", 1, "expired")
        assert call["age_s"] >= call["running_s"] > 0.05
        assert 0 <= told["oldest_call_s"] < call["age_s"], "the one that waits is younger"
        os.kill(told["workers"][0]["pid"], signal.SIGKILL)
        assert await waiting == 1
        assert arbiter.status()["oldest_call_s"] is None


async def test_a_status_names_no_more_than_twenty_calls_of_a_worker() -> None:
    async with serving() as arbiter:
        calls = [asyncio.create_task(arbiter.call(BASIC, "asleep", 30)) for _ in range(30)]
        await until(lambda: arbiter.status()["workers"][0]["running"] == 30)
        assert [call["call"] for call in arbiter.status()["workers"][0]["calls"]] == list(range(1, 21))
        for call in calls:
            call.cancel()
        await until(lambda: not arbiter.ledger.open)


# --- the audit ---


async def running_and_waiting(arbiter: Arbiter) -> list[asyncio.Task[object]]:
    calls = [asyncio.create_task(arbiter.call(BASIC, "sleep", 0.3)) for _ in range(2)]
    await until(lambda: arbiter.ledger.open == 2)
    arbiter.check_invariants()
    return calls


async def test_the_audit_misses_a_call_that_one_of_the_books_does_not_have() -> None:
    async with serving() as arbiter:
        calls = await running_and_waiting(arbiter)
        interpreter = arbiter._interpreter
        pool, open_calls, crew = interpreter.pool.snapshot(), interpreter.desk.apps(), interpreter.crew
        running, waiting = open_calls
        check_books(pool, open_calls, crew)
        with pytest.raises(AssertionError, match="nobody was told of their end"):
            check_books(pool, {waiting: BASIC}, crew)
        with pytest.raises(AssertionError, match=r"calls are open and do not run"):
            check_books(pool, {running: BASIC}, crew)
        with pytest.raises(AssertionError, match="but was sent"):
            check_books(replace(pool, workers=(replace(pool.workers[0], running=()),)), open_calls, crew)
        with pytest.raises(AssertionError, match="nowhere else"):
            check_books(pool, open_calls, Crew(arbiter._spawner, on_message=print, on_gone=print, on_spawned=print))
        entry = arbiter.ledger._open.pop(running)
        with pytest.raises(AssertionError):
            arbiter.check_invariants()
        arbiter.ledger._open = {running: entry, **arbiter.ledger._open}
        await asyncio.gather(*calls)
