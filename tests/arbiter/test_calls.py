from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.errors import (
    ActionNotFound,
    CallCancelled,
    DirtyAppError,
    DirtyAppNotFoundError,
    DirtyTimeoutError,
    Draining,
    EncodeError,
    LocalProtocolError,
    Unavailable,
)
from dirtybus.protocol.heads import Progress
from tests.arbiter.serving import BASIC, OTHER, serving, until


async def test_every_kind_of_action_answers() -> None:
    async with serving() as arbiter:
        assert await arbiter.call(BASIC, "echo", (1, {2}), x=b"3") == ((1, {2}), {"x": b"3"})
        assert await arbiter.call(BASIC, "asleep", 0, "async") == "async"
        assert await arbiter.call(BASIC, "numbers", 3) == [0, 1, 2]
        assert await arbiter.call(BASIC, "anumbers", 3) == [0, 1, 2]


async def test_state_stays_in_the_worker_between_calls() -> None:
    async with serving() as arbiter:
        assert [await arbiter.call(BASIC, "count_up") for _ in range(3)] == [1, 2, 3]
        assert await arbiter.call(BASIC, "same_thread"), "sync actions run in the thread that ran init()"


async def test_what_is_not_for_callers_is_refused() -> None:
    async with serving() as arbiter:
        for name in ("thread", "init", "close", "_private", "__call__", "__init__", "workers", "stashes", "nope"):
            with pytest.raises(ActionNotFound):
                await arbiter.call(BASIC, name)
        with pytest.raises(ActionNotFound, match="did you mean 'echo'"):
            await arbiter.call(BASIC, "ecko")


async def test_an_unknown_app_names_the_nearest() -> None:
    async with serving() as arbiter:
        with pytest.raises(DirtyAppNotFoundError, match="did you mean 'tests.apps.basic:Basic'"):
            await arbiter.call("tests.apps.basic:Basik", "echo")


async def test_an_error_of_the_app_arrives_with_its_type_and_traceback() -> None:
    async with serving() as arbiter:
        with pytest.raises(DirtyAppError) as caught:
            await arbiter.call(BASIC, "boom", "no {braces} harmed")
        error = caught.value
        assert (error.message, error.error_type, error.action) == ("no {braces} harmed", "ValueError", "boom")
        assert error.traceback is not None
        assert "in boom" in error.traceback


async def test_sys_exit_in_an_action_does_not_end_the_worker() -> None:
    async with serving() as arbiter:
        before = await arbiter.call(BASIC, "pid")
        with pytest.raises(DirtyAppError, match="SystemExit"):
            await arbiter.call(BASIC, "leave")
        assert await arbiter.call(BASIC, "pid") == before


async def test_what_cannot_be_sent_is_refused_before_it_starts_with_its_place() -> None:
    async with serving() as arbiter:
        with pytest.raises(EncodeError) as caught:
            await arbiter.call(BASIC, "echo", {"a": [object()]})
        assert "object" in str(caught.value)
        assert "args[0]['a'][0]" in str(caught.value)
        assert arbiter.ledger.submitted == 0


async def test_a_result_that_cannot_be_sent_says_so() -> None:
    async with serving() as arbiter:
        with pytest.raises(EncodeError, match="lock"):
            await arbiter.call(BASIC, "unsendable")


async def test_too_large_a_call_is_refused_before_it_starts_and_too_large_a_result_after() -> None:
    async with serving(max_payload_bytes="64KiB") as arbiter:
        with pytest.raises(LocalProtocolError, match="max_payload_bytes"):
            await arbiter.call(BASIC, "echo", b"x" * 70_000)
        with pytest.raises(LocalProtocolError, match="limit"):
            await arbiter.call(BASIC, "big", 70_000)
        assert await arbiter.call(BASIC, "big", 1000) == b"x" * 1000


async def test_ten_megabytes_go_there_and_back() -> None:
    async with serving() as arbiter:
        payload = bytes(range(256)) * 40_000
        assert await arbiter.call(BASIC, "echo", payload) == payload


async def test_a_queued_call_past_its_deadline_never_runs() -> None:
    async with serving() as arbiter:
        blocker = asyncio.create_task(arbiter.call(BASIC, "sleep", 0.6))
        await until(lambda: arbiter.status()["workers"][0]["running"])
        with pytest.raises(DirtyTimeoutError) as caught:
            await arbiter.call(BASIC, "count_up", timeout_s=0.1)
        assert (caught.value.phase, caught.value.whose) == ("queued", "the caller's timeout")
        await blocker
        assert await arbiter.call(BASIC, "count_up") == 1


async def test_a_running_call_past_its_deadline_is_told_at_once_and_its_stuck_worker_replaced() -> None:
    async with serving(cancel_grace="200ms") as arbiter:
        before = await arbiter.call(BASIC, "pid")
        began_at = time.monotonic()
        with pytest.raises(DirtyTimeoutError) as caught:
            await arbiter.call(BASIC, "impatient")
        assert time.monotonic() - began_at < 2
        assert (caught.value.phase, caught.value.whose) == ("running", "the action's timeout")
        assert await arbiter.call(BASIC, "pid") != before


async def test_timeout_zero_means_none() -> None:
    async with serving(timeout=0) as arbiter:
        assert await arbiter.call(BASIC, "echo", 1) == 1
        context = await arbiter.call(BASIC, "context")
        assert context["time_left_s"] is None
        assert (await arbiter.call(BASIC, "context", timeout_s=60))["time_left_s"] <= 60


@pytest.mark.parametrize("action", ["until_cancelled", "until_cancelled_async"])
async def test_cancelling_the_caller_ends_the_work(action: str, tmp_path: Path) -> None:
    async with serving() as arbiter:
        mark = tmp_path / "ended"
        call = asyncio.create_task(arbiter.call(BASIC, action, str(mark)))
        await until(Path(f"{mark}.began").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(mark.exists)
        assert await arbiter.call(BASIC, "echo", "next") == "next"
        assert arbiter.ledger.cancelled == 1


async def test_a_cancelled_queued_call_never_runs() -> None:
    async with serving() as arbiter:
        blocker = asyncio.create_task(arbiter.call(BASIC, "sleep", 0.3))
        queued = asyncio.create_task(arbiter.call(BASIC, "count_up"))
        await until(lambda: arbiter.status()["queued"].get(BASIC))
        queued.cancel()
        await asyncio.wait([queued])
        await blocker
        assert await arbiter.call(BASIC, "count_up") == 1


async def test_on_cancel_wait_lets_the_work_end(tmp_path: Path) -> None:
    async with serving(cancel_grace="50ms") as arbiter:
        before = await arbiter.call(BASIC, "pid")
        mark = tmp_path / "ended"
        with pytest.raises(DirtyTimeoutError):
            await arbiter.call(BASIC, "stubborn", str(mark), 0.5, timeout_s=0.1)
        assert await arbiter.call(BASIC, "pid") == before
        assert mark.exists()


async def test_async_actions_of_one_worker_overlap() -> None:
    async with serving() as arbiter:
        began_at = time.monotonic()
        await asyncio.gather(*(arbiter.call(BASIC, "asleep", 0.5) for _ in range(100)))
        assert time.monotonic() - began_at < 10, "100 sleeps of 0.5 s one after the other take 50 s"


async def test_threads_run_sync_actions_at_the_same_time() -> None:
    async with serving(threads=4) as arbiter:
        began_at = time.monotonic()
        await asyncio.gather(*(arbiter.call(BASIC, "sleep", 1.0) for _ in range(4)))
        assert time.monotonic() - began_at < 3, "4 sleeps of 1 s one after the other take 4 s"


async def test_nothing_waits_behind_a_slow_call_while_a_worker_is_free() -> None:
    async with serving(workers=2) as arbiter:
        slow = asyncio.create_task(arbiter.call(BASIC, "sleep", 3.0))
        began_at = time.monotonic()
        await asyncio.gather(*(arbiter.call(BASIC, "sleep", 0.01) for _ in range(20)))
        assert time.monotonic() - began_at < 2.5
        assert not slow.done()
        slow.cancel()


async def test_the_context_tells_of_the_call() -> None:
    async with serving() as arbiter:
        context = await arbiter.call(BASIC, "context", timeout_s=60)
        assert context["app"] == BASIC
        assert (context["action"], context["attempt"], context["cancelled"]) == ("context", 1, False)
        assert 0 < context["time_left_s"] <= 60
        ids = await asyncio.gather(*(arbiter.call(BASIC, "acontext") for _ in range(20)))
        assert len(set(ids)) == 20


async def test_progress_reaches_the_caller() -> None:
    async with serving() as arbiter:
        reports: list[Progress] = []
        assert await arbiter.execute(BASIC, "report", (5,), on_progress=reports.append) == "done"
        assert (reports[-1].done, reports[-1].total, reports[-1].text) == (5, 5, "steps")


async def test_calls_before_the_start_and_after_the_end_are_told_so() -> None:
    arbiter = Arbiter(DirtyConfig.of(BASIC))
    with pytest.raises(Unavailable, match="not started"):
        await arbiter.call(BASIC, "echo")
    async with serving() as arbiter:
        assert await arbiter.drain(5)
        with pytest.raises(Draining):
            await arbiter.call(BASIC, "echo")


async def test_a_duck_typed_app_is_served() -> None:
    async with serving("tests.apps.basic:Duck") as arbiter:
        assert await arbiter.call("tests.apps.basic:Duck", "anything", 1) == ["anything", 1, "quack"]
        for name in ("_secret", "init", "close"):
            with pytest.raises(ActionNotFound):
                await arbiter.call("tests.apps.basic:Duck", name)


async def test_calls_go_only_to_workers_that_hold_the_app() -> None:
    async with serving(BASIC, OTHER, workers=3) as arbiter:
        others = {await arbiter.call(OTHER, "pid") for _ in range(10)}
        assert len(others) == 1
        held = [worker["apps"] for worker in arbiter.status()["workers"]]
        assert sorted(map(len, held)) == [1, 1, 2]


async def test_a_caller_never_gets_another_ones_answer() -> None:
    async with serving(workers=2) as arbiter:

        async def caller(number: int) -> int:
            wrong = 0
            for turn in range(100):
                sent: Any = [number, turn]
                action = "asleep" if turn % 3 == 0 else "echo"
                args = (0, sent) if action == "asleep" else (sent,)
                try:
                    async with asyncio.timeout(0.001 if turn % 7 == 0 else 30):
                        wrong += await arbiter.call(BASIC, action, *args) != sent
                except TimeoutError:
                    continue
            return wrong

        assert sum(await asyncio.gather(*(caller(n) for n in range(30)))) == 0


async def test_cancel_of_an_event_settles_with_call_cancelled() -> None:
    async with serving() as arbiter:
        call = asyncio.create_task(arbiter.call(BASIC, "asleep", 30))
        await until(lambda: arbiter.ledger.open)
        arbiter.cancel(next(iter(arbiter._interpreter.desk._open)))
        with pytest.raises(CallCancelled):
            await call


async def test_without_apps_and_workers_there_is_still_a_stash() -> None:
    arbiter = Arbiter(DirtyConfig(workers=0))
    await arbiter.start()
    arbiter.admit()
    with pytest.raises(DirtyAppNotFoundError, match="no app"):
        await arbiter.call(BASIC, "echo")
    assert await arbiter.drain(1)
    await arbiter.close()
