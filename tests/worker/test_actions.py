from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dirtybus.app import current_call
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import CallCancelled, DirtyAppError, DirtyError, EncodeError, LocalProtocolError
from dirtybus.protocol.heads import Progress
from tests.arbiter.serving import serving, until
from tests.worker.records import records

ODD = "tests.apps.odd:Odd"
LIMIT = 1 << 20
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def arbiter() -> AsyncIterator[Arbiter]:
    async with serving(ODD, max_payload_bytes=LIMIT) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def same_worker(arbiter: Arbiter) -> AsyncIterator[None]:
    """The worker must live through what the test does."""
    before = await arbiter.call(ODD, "pid")
    yield
    assert await arbiter.call(ODD, "pid") == before


# --- errors -------------------------------------------------------------------------------------------------------


async def test_a_message_that_is_no_utf8_arrives_spelled_out(arbiter: Arbiter, same_worker: None) -> None:
    with pytest.raises(DirtyAppError, match=r"caf\\udce9\.txt") as caught:
        await arbiter.call(ODD, "half_a_pair")
    assert caught.value.error_type == "FileNotFoundError"
    assert "caf" in str(caught.value.traceback)


async def test_an_exception_that_cannot_say_what_it_is_arrives_by_its_name(arbiter: Arbiter, same_worker: None) -> None:
    with pytest.raises(DirtyAppError, match="Unspeakable") as caught:
        await arbiter.call(ODD, "unspeakable")
    assert caught.value.error_type == "tests.apps.odd.Unspeakable"


@pytest.mark.parametrize("chars", [100_000, LIMIT, 20 * LIMIT])
async def test_an_error_of_any_size_arrives(arbiter: Arbiter, same_worker: None, chars: int) -> None:
    with pytest.raises(DirtyAppError, match="^ValueError: xxx"):
        await arbiter.call(ODD, "long_winded", chars)


async def test_an_error_that_carries_what_cannot_be_sent_arrives_without_it(
    arbiter: Arbiter, same_worker: None
) -> None:
    with pytest.raises(DirtyAppError, match="with a lock in it") as caught:
        await arbiter.call(ODD, "carrying")
    assert "lock" not in caught.value.details


async def test_where_hardly_anything_fits_the_bare_error_arrives() -> None:
    async with serving(ODD, max_payload_bytes=1024 + 4096) as arbiter:
        pid = await arbiter.call(ODD, "pid")
        for chars in (100, 2000, 100_000):
            with pytest.raises(DirtyError, match="xxx"):
                await arbiter.call(ODD, "long_winded", chars)
        assert await arbiter.call(ODD, "pid") == pid


@pytest.mark.parametrize(("action", "name"), [("leaving", "SystemExit"), ("interrupted", "KeyboardInterrupt")])
async def test_an_action_cannot_end_its_worker(arbiter: Arbiter, same_worker: None, action: str, name: str) -> None:
    with pytest.raises(DirtyAppError) as caught:
        await arbiter.call(ODD, action)
    assert caught.value.error_type == name


async def test_an_action_that_cancels_itself_says_so(arbiter: Arbiter, same_worker: None) -> None:
    with pytest.raises(CallCancelled):
        await arbiter.call(ODD, "given_up", timeout_s=0)


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [("lock", EncodeError, "_thread.lock"), ("too large", LocalProtocolError, str(LIMIT))],
)
async def test_a_result_that_cannot_be_sent_is_an_error_that_says_why(
    arbiter: Arbiter, same_worker: None, name: str, error: type[DirtyError], text: str
) -> None:
    with pytest.raises(error, match=text):
        await arbiter.call(ODD, "odd_result", name)
    assert await arbiter.call(ODD, "odd_result", "big int") == 2**200


# --- the context of a call ----------------------------------------------------------------------------------------


async def test_outside_of_a_call_there_is_none(arbiter: Arbiter) -> None:
    with pytest.raises(DirtyError, match="no call runs here"):
        current_call()
    assert "no call runs here" in await arbiter.call(ODD, "call_of_a_thread")


async def test_at_most_ten_reports_a_second_leave(arbiter: Arbiter) -> None:
    reports: list[Progress] = []
    began_at = time.monotonic()
    await arbiter.execute(ODD, "report_often", (20_000,), on_progress=reports.append)
    assert 1 <= len(reports) <= 2 + 10 * (time.monotonic() - began_at)
    assert (reports[0].done, reports[0].total) == (0, 40_000)


async def test_a_report_may_be_any_number(arbiter: Arbiter) -> None:
    reports: list[Progress] = []
    await arbiter.execute(ODD, "report_oddly", on_progress=reports.append)
    assert reports == [Progress(done=0.5, total=1.0, text="half")]


async def test_a_report_after_the_answer_goes_nowhere(arbiter: Arbiter, same_worker: None) -> None:
    await arbiter.call(ODD, "report_too_late")
    async with asyncio.timeout(10):
        while not await arbiter.call(ODD, "leave_a_question_open"):
            pass

    await until(lambda: "odd" in arbiter.stash.state.tables.names())


async def test_an_answer_whose_asker_is_gone_does_not_deafen_the_worker(arbiter: Arbiter, same_worker: None) -> None:
    for _ in range(3):
        assert await arbiter.call(ODD, "leave_a_question_open", timeout_s=20) == "still answered"


# --- signals and processes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["stop_a_program", "stop_a_fork"])
async def test_what_an_action_starts_can_be_stopped_as_usual(arbiter: Arbiter, same_worker: None, action: str) -> None:
    assert await arbiter.call(ODD, action) == -signal.SIGTERM


# --- threads ------------------------------------------------------------------------------------------------------


async def test_as_many_actions_run_at_once_as_there_are_threads_each_with_its_own_call() -> None:
    async with serving(ODD, threads=4) as arbiter:
        met = await asyncio.gather(*(arbiter.call(ODD, "meet", 4) for _ in range(4)))
        assert len(set(met)) == 4


# --- the life of apps ---------------------------------------------------------------------------------------------


async def test_a_close_that_fails_is_logged_and_the_others_are_closed(tmp_path: Path) -> None:
    apps = [f"tests.apps.odd:{name}" for name in ("Last", "Leaving", "Ending")]
    journal = tmp_path / "journal"
    with records() as heard:
        async with serving(*apps, env={"JOURNAL": str(journal)}) as arbiter:
            assert await arbiter.call("tests.apps.odd:Ending", "is_ready") is True
            await arbiter.drain(20)
    assert journal.read_text().splitlines() == ["Ending closed", "Leaving closed", "Last closed"]
    failed = heard.of("close() of tests.apps.odd:Ending failed: RuntimeError: cannot close")
    assert failed["level"].name == "ERROR"
    assert "Traceback" in failed["message"]
    assert heard.of("close() of tests.apps.odd:Leaving failed: SystemExit: 3")
    assert "printed in close" in heard.texts()
    assert heard.of("worker 1 left")


async def test_an_action_that_gets_no_memory_fails_and_its_worker_lives_on() -> None:
    hungry = "tests.apps.endless:Hungry"
    async with serving(hungry) as arbiter:
        (worker,) = arbiter.status()["workers"]
        with pytest.raises(DirtyAppError) as caught:
            await arbiter.call(hungry, "take", 1 << 30)
        assert caught.value.error_type == "MemoryError"
        assert await arbiter.call(hungry, "take", 1000) == 1000
        assert [w["pid"] for w in arbiter.status()["workers"]] == [worker["pid"]]
