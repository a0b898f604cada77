from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import (
    CallCancelled,
    DirtyAppError,
    DirtyError,
    DirtyTimeoutError,
    EncodeError,
    PoisonCall,
    WorkerLost,
)
from tests.apps.batched import APP
from tests.arbiter.serving import serving, until
from tests.arbiter.test_crashes import has_begun

Task = asyncio.Task[Any]


def ask(arbiter: Arbiter, action: str, items: Sequence[Any], **limits: Any) -> list[Task]:
    return [asyncio.create_task(arbiter.call(APP, action, item, **limits)) for item in items]


async def outcomes(tasks: Sequence[Task]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


# --- what runs together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["double", "double_async"])
async def test_calls_of_four_callers_run_as_one_and_each_gets_its_own_answer(action: str) -> None:
    async with serving(APP, workers=1) as arbiter:
        assert await outcomes(ask(arbiter, action, [1, 2, 3, 4])) == [(2, 4), (4, 4), (6, 4), (8, 4)]
        assert arbiter.ledger.succeeded == 4


async def test_a_lone_call_goes_once_it_has_waited_for_company() -> None:
    async with serving(APP, workers=1) as arbiter:
        began_at = asyncio.get_running_loop().time()
        assert await arbiter.call(APP, "soon", 1) == (2, 1)
        assert asyncio.get_running_loop().time() - began_at >= 0.045


async def test_calls_that_wait_for_company_hold_up_no_others() -> None:
    async with serving(APP, workers=1) as arbiter:
        held = ask(arbiter, "double", [1, 2, 3])
        assert await arbiter.call(APP, "single", "by itself") == "by itself"
        assert not any(task.done() for task in held)
        assert await arbiter.call(APP, "double", 4) == (8, 4)
        await outcomes(held)


async def test_a_batch_costs_no_more_bytes_than_it_may() -> None:
    async with serving(APP, workers=1) as arbiter:
        assert await outcomes(ask(arbiter, "weigh", [b"x" * 1400] * 3)) == [2, 2, 1]
        assert await arbiter.call(APP, "weigh", b"x" * 9000) == 1


async def test_a_deadline_ends_the_wait_for_company_while_there_is_time_to_run() -> None:
    async with serving(APP, workers=1) as arbiter:
        assert await arbiter.call(APP, "double", 1, timeout_s=2) == (2, 1)


async def test_a_full_queue_ends_the_wait_for_company() -> None:
    async with serving(APP, workers=1, max_queued=2) as arbiter:
        first = ask(arbiter, "double", [1, 2])
        await until(lambda: arbiter.status()["queued"] == {APP: 2})
        assert await outcomes([*first, *ask(arbiter, "single", [3])]) == [(2, 2), (4, 2), 3]


async def test_a_drain_ends_the_wait_for_company() -> None:
    async with serving(APP, workers=1) as arbiter:
        tasks = ask(arbiter, "double", [1, 2])
        await until(lambda: arbiter.ledger.open == 2)
        await arbiter.drain(10)
        assert await outcomes(tasks) == [(2, 2), (4, 2)]


async def test_a_reload_loses_nobody_who_waits_for_company() -> None:
    async with serving(APP, workers=1) as arbiter:
        before = await arbiter.call(APP, "pid")
        tasks = ask(arbiter, "double", [1, 2, 3])
        await arbiter.reload()
        assert await arbiter.call(APP, "pid") != before
        tasks += ask(arbiter, "double", [4])
        assert await outcomes(tasks) == [(2, 4), (4, 4), (6, 4), (8, 4)]


# --- what goes wrong with one -------------------------------------------------------------------------------------


async def test_an_error_of_one_item_is_told_to_its_caller_only() -> None:
    async with serving(APP, workers=1) as arbiter:
        one, two, three, four = await outcomes(ask(arbiter, "pick", ["error", "fine", "unsendable", None]))
        assert isinstance(one, DirtyAppError)
        assert (one.error_type, one.message) == ("ValueError", "this one")
        assert two == "fine"
        assert isinstance(three, EncodeError)
        assert four is None


async def test_an_error_of_the_action_is_told_to_each() -> None:
    async with serving(APP, workers=1) as arbiter:
        for error in await outcomes(ask(arbiter, "fail", range(4))):
            assert isinstance(error, DirtyAppError)
            assert str(error) == "RuntimeError: all 4"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("short", "must return a list with one entry for each of its calls: there are 4, and it has 3"),
        ("text", "must return a list with one entry for each of its calls, not str"),
        ("none", "must return a list with one entry for each of its calls, not NoneType"),
        ("map", "must return a list with one entry for each of its calls, not dict"),
    ],
)
async def test_an_action_that_does_not_answer_each_is_told_to_each(form: str, text: str) -> None:
    async with serving(APP, workers=1) as arbiter:
        for error in await outcomes(ask(arbiter, "answer_with", [form] * 4)):
            assert isinstance(error, DirtyAppError)
            assert text in str(error)


async def test_wrong_arguments_are_told_to_their_caller_only() -> None:
    async with serving(APP, workers=1) as arbiter:
        wrong = asyncio.create_task(arbiter.call(APP, "double", 1, 2))
        right = ask(arbiter, "double", [3, 4, 5])
        assert await outcomes(right) == [(6, 3), (8, 3), (10, 3)]
        with pytest.raises(DirtyAppError, match="each call gives it one argument, by position; this one gave 2"):
            await wrong


# --- cancels and deadlines ----------------------------------------------------------------------------------------


async def running_batch(arbiter: Arbiter, tmp_path: Path, **limits: Any) -> tuple[list[Task], Path]:
    """Return the four calls of a batch that runs, and the file that lets it end."""
    began, go_on = tmp_path / "began", tmp_path / "go on"
    tasks = ask(arbiter, "hold", [(str(began), str(go_on))] * 3)
    tasks += ask(arbiter, "hold", [(str(began), str(go_on))], **limits)
    await until(began.exists)
    return tasks, go_on


async def test_the_cancel_of_one_hurts_no_other(tmp_path: Path) -> None:
    async with serving(APP, workers=1, cancel_grace="0s") as arbiter:
        pid = await arbiter.call(APP, "pid")
        tasks, go_on = await running_batch(arbiter, tmp_path)
        tasks[1].cancel()
        await until(lambda: arbiter.ledger.open == 3)
        go_on.touch()
        one, two, *others = await outcomes(tasks)
        assert isinstance(two, asyncio.CancelledError)
        assert [one, *others] == [4, 4, 4]
        assert await arbiter.call(APP, "pid") == pid
        assert (arbiter.ledger.late, arbiter.ledger.open) == (1, 0)


async def test_the_deadline_of_one_hurts_no_other(tmp_path: Path) -> None:
    async with serving(APP, workers=1, cancel_grace="0s") as arbiter:
        pid = await arbiter.call(APP, "pid")
        tasks, go_on = await running_batch(arbiter, tmp_path, timeout_s=3)
        with pytest.raises(DirtyTimeoutError):
            await tasks.pop()
        go_on.touch()
        assert await outcomes(tasks) == [4, 4, 4]
        assert await arbiter.call(APP, "pid") == pid


async def test_one_that_is_cancelled_while_it_waits_is_not_run(tmp_path: Path) -> None:
    async with serving(APP, workers=1) as arbiter:
        tasks = ask(arbiter, "double", [1, 2, 3])
        await until(lambda: arbiter.ledger.open == 3)
        tasks[0].cancel()
        await until(lambda: arbiter.ledger.open == 2)
        tasks += ask(arbiter, "double", [4, 5])
        assert (await outcomes(tasks))[1:] == [(4, 4), (6, 4), (8, 4), (10, 4)]


async def test_when_nobody_waits_any_more_the_action_is_told(tmp_path: Path) -> None:
    began = tmp_path / "began"
    async with serving(APP, workers=1) as arbiter:
        pid = await arbiter.call(APP, "pid")
        tasks = ask(arbiter, "hold_while_wanted", [str(began)] * 4)
        await until(began.exists)
        for task in tasks:
            task.cancel()
        assert await arbiter.call(APP, "pid") == pid


async def test_when_nobody_waits_any_more_an_async_action_is_cancelled(tmp_path: Path) -> None:
    began = tmp_path / "began"
    async with serving(APP, workers=1) as arbiter:
        tasks = ask(arbiter, "hold_async", [str(began)] * 4)
        await until(began.exists)
        for task in tasks[:3]:
            task.cancel()
        await until(lambda: arbiter.ledger.open == 1)
        assert not Path(f"{began}.cancelled").exists()
        tasks[3].cancel()
        await until(Path(f"{began}.cancelled").exists)


async def test_a_batch_that_nobody_waits_for_and_that_goes_on_costs_its_worker(tmp_path: Path) -> None:
    async with serving(APP, workers=1, cancel_grace=0.2, restart_delay=0) as arbiter:
        pid = await arbiter.call(APP, "pid")
        tasks, _ = await running_batch(arbiter, tmp_path)
        for task in tasks:
            task.cancel()
        assert await arbiter.call(APP, "pid") != pid


# --- deaths -------------------------------------------------------------------------------------------------------


async def test_a_death_is_told_to_each_that_had_begun_and_to_no_other() -> None:
    async with serving(APP, workers=1, restart_delay=0) as arbiter:
        dying, held = ask(arbiter, "die", range(4)), ask(arbiter, "double", range(3))
        for error in await outcomes(dying):
            assert isinstance(error, WorkerLost)
            assert error.started
        assert await outcomes([*held, *ask(arbiter, "double", [3])]) == [(0, 4), (2, 4), (4, 4), (6, 4)]
        assert arbiter.ledger.lost == 4


async def test_a_call_that_kills_takes_the_others_of_its_batch_with_it_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    async with serving(APP, workers=1, restart_delay=0, crash_limit=3, max_restarts=None) as arbiter:
        *innocent, guilty = await outcomes(
            ask(arbiter, "mine", [(what, str(notes)) for what in ("one", "two", "three", "kill")])
        )
        assert innocent == [1, 1, 1]
        assert isinstance(guilty, PoisonCall)
        assert guilty.attempts == 3
    runs = notes.read_text().split()
    assert {what: runs.count(what) for what in runs} == {"one": 2, "two": 2, "three": 2, "kill": 3}


async def test_a_batch_that_a_dead_worker_had_not_begun_runs_in_another(tmp_path: Path) -> None:
    async with serving(APP, workers=1, restart_delay=0) as arbiter:
        pid = await arbiter.call(APP, "pid")
        os.kill(pid, signal.SIGSTOP)
        tasks = ask(arbiter, "double", range(4))
        await until(lambda: arbiter.status()["queued"] == {} and arbiter.ledger.open == 4)
        assert not has_begun(arbiter)
        os.kill(pid, signal.SIGKILL)
        assert await outcomes(tasks) == [(0, 4), (2, 4), (4, 4), (6, 4)]


# --- streams ------------------------------------------------------------------------------------------------------


async def read(arbiter: Arbiter, action: str, item: Any) -> list[Any]:
    """Return the chunks, and the error that ended them if one did."""
    chunks: list[Any] = []
    try:
        async for chunk in arbiter.stream(APP, action, (item,)):
            chunks.append(chunk)
    except DirtyError as exc:
        chunks.append(type(exc))
    return chunks


@pytest.mark.parametrize("action", ["count", "count_async"])
async def test_streams_of_one_batch_end_each_for_itself(action: str) -> None:
    async with serving(APP, workers=1) as arbiter:
        found = await asyncio.gather(*(read(arbiter, action, item) for item in (0, 3, 1, 100)))
        assert found == [[], [0, 1, 2], [0], list(range(100))]
        assert await outcomes(ask(arbiter, action, [0, 2, 2, 1])) == [[], [0, 1], [0, 1], [0]]


async def test_an_error_in_a_stream_ends_that_one_only() -> None:
    async with serving(APP, workers=1) as arbiter:
        found = await asyncio.gather(*(read(arbiter, "stumble", item) for item in ("error", "a", "b", "c")))
        assert found == [["error", DirtyAppError], ["a", "a"], ["b", "b"], ["c", "c"]]


async def test_a_list_of_chunks_of_the_wrong_length_ends_all_streams() -> None:
    async with serving(APP, workers=1) as arbiter:
        found = await asyncio.gather(*(read(arbiter, "stumble", item) for item in ("short", "a", "b", "c")))
        assert found == [[item, item, DirtyAppError] for item in ("short", "a", "b", "c")]


async def test_a_reader_that_leaves_ends_its_own_stream_and_the_last_one_the_action() -> None:
    async with serving(APP, workers=1) as arbiter:
        pid = await arbiter.call(APP, "pid")
        one, two = (arbiter.stream(APP, "endless", (item,), timeout_s=0) for item in range(2))
        assert set(await asyncio.gather(anext(one), anext(two))) == {0}
        await one.aclose()
        assert [await anext(two) for _ in range(200)] == list(range(1, 201))
        await two.aclose()
        assert await arbiter.call(APP, "pid") == pid


async def test_a_reader_that_stalls_holds_up_no_other_and_is_told_in_the_end() -> None:
    async with serving(APP, workers=1, stream_window=4) as arbiter:
        slow, fast = (arbiter.stream(APP, "endless", (item,), timeout_s=0) for item in range(2))
        assert set(await asyncio.gather(anext(slow), anext(fast))) == {0}
        assert [await anext(fast) for _ in range(600)] == list(range(1, 601))
        await fast.aclose()
        seen = 0
        with pytest.raises(DirtyAppError, match="chunks behind the other calls of its batch"):
            async for _ in slow:
                seen += 1
        assert seen < 20


async def test_a_short_stream_that_is_read_late_is_whole() -> None:
    async with serving(APP, workers=1, stream_window=4) as arbiter:
        slow = arbiter.stream(APP, "count", (100,))
        others = asyncio.gather(*(read(arbiter, "count", 5) for _ in range(3)))
        assert await anext(slow) == 0
        assert await others == [list(range(5))] * 3
        assert [chunk async for chunk in slow] == list(range(1, 100))


async def test_cancelled_calls_are_told_so_by_the_worker_too(tmp_path: Path) -> None:
    async with serving(APP, workers=1) as arbiter:
        began, go_on = tmp_path / "began", tmp_path / "go on"
        blocking = ask(arbiter, "hold", [(str(began), str(go_on))] * 4)
        await until(began.exists)
        waiting = ask(arbiter, "double", range(4))
        await until(lambda: arbiter.ledger.open == 8)
        waiting[0].cancel()
        go_on.touch()
        assert await outcomes(blocking) == [4] * 4
        found = await outcomes([*waiting, *ask(arbiter, "double", [4])])
        assert isinstance(found[0], asyncio.CancelledError | CallCancelled)
        assert found[1:] == [(2, 4), (4, 4), (6, 4), (8, 4)]
