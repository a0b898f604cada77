from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from dirtybus import log
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.errors import DirtyConnectionError, LocalProtocolError
from dirtybus.protocol.heads import Log
from dirtybus.protocol.messages import Message
from dirtybus.worker.logs import LogForwarder
from tests.apps.loud import BRACES
from tests.arbiter.serving import serving, until
from tests.worker.records import Records, records

LOUD = "tests.apps.loud:Loud"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def arbiter() -> AsyncIterator[Arbiter]:
    async with serving(LOUD) as started:
        yield started


@pytest.fixture
def heard() -> Iterator[Records]:
    with records() as found:
        yield found


async def test_each_way_to_log_arrives_with_worker_app_and_call(arbiter: Arbiter, heard: Records) -> None:
    call = await arbiter.call(LOUD, "everything")
    expected = {
        "printed to stdout": ("INFO", "stdout"),
        "printed to stderr": ("WARNING", "stderr"),
        "logged by stdlib": ("WARNING", "shop"),
        "logged by the call": ("INFO", LOUD.replace(":", ".")),
    }
    for text, (level, name) in expected.items():
        record = heard.of(text)
        assert (record["level"].name, record["name"]) == (level, name)
        assert (record["extra"]["worker"], record["extra"]["app"], record["extra"]["call"]) == (1, LOUD, call)


async def test_loguru_in_a_worker_arrives_once_and_with_its_tracebacks(arbiter: Arbiter, heard: Records) -> None:
    call = await arbiter.call(LOUD, "with_loguru")
    plain, failed = heard
    assert (plain["message"], plain["level"].name) == ("logged by loguru {'a': 1}", "WARNING")
    assert (failed["level"].name, failed["extra"]["call"]) == ("ERROR", call)
    assert failed["message"].startswith("with a traceback\nTraceback (most recent call last)")
    assert failed["message"].endswith("KeyError: 'caught'")


async def test_a_traceback_is_one_record_printed_or_logged(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "tracebacks")
    printed, logged, afterwards = heard
    assert printed["level"].name == "ERROR"
    assert printed["message"].startswith("KeyError: 'printed'\nTraceback (most recent call last)")
    assert logged["message"].startswith("logged\nTraceback (most recent call last)")
    assert afterwards["message"] == "afterwards"


async def test_braces_in_a_text_are_nobodys_template(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "braces")
    assert heard.texts() == [BRACES, BRACES]


async def test_records_below_the_level_stay_in_the_worker(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "below")
    assert heard.texts() == ["at the level"]


async def test_what_c_code_writes_arrives_with_the_worker(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "from_c")
    await until(lambda: len(heard) == 3)
    assert sorted(heard.texts()) == ["written as bytes", "written by C to 1", "written by C to 2"]
    assert {record["extra"]["worker"] for record in heard} == {1}


async def test_a_flood_of_lines_loses_no_line_and_no_call(arbiter: Arbiter, heard: Records) -> None:
    assert await arbiter.call(LOUD, "flood", 10_000) == 10_000
    assert heard.texts() == [f"line {number}" for number in range(10_000)]
    assert await arbiter.call(LOUD, "echo", "next") == "next"


async def test_a_record_that_cannot_be_made_or_sent_does_not_stop_the_action(arbiter: Arbiter, heard: Records) -> None:
    assert await arbiter.call(LOUD, "badly") == "went on"
    texts = heard.texts()
    assert r"half a pair \udce9" in texts
    assert any("Logging error" in text for text in texts)
    assert any(text.startswith("xxx") and len(text) <= 1 << 16 for text in texts)


async def test_a_progress_bar_is_one_line(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "bar")
    assert heard.texts() == ["100%", "with a carriage return"]


async def test_a_thread_without_a_call_is_heard_too(arbiter: Arbiter, heard: Records) -> None:
    await arbiter.call(LOUD, "in_a_thread")
    record = heard.of("printed by a thread")
    assert (record["extra"]["app"], record["extra"]["call"]) == (None, None)


async def test_finalizers_that_print_while_something_is_sent_do_not_block_the_worker(
    arbiter: Arbiter, heard: Records
) -> None:
    assert await arbiter.call(LOUD, "in_finalizers", 200, timeout_s=30) == 200
    await until(lambda: heard.texts().count("printed by a finalizer") >= 199)
    assert heard.texts().count("between") == 200


async def test_a_fork_of_the_worker_does_not_write_to_its_link(arbiter: Arbiter, heard: Records) -> None:
    for _ in range(5):
        assert await arbiter.call(LOUD, "from_a_fork") == 0
    await until(lambda: heard.texts().count("logged by a fork") == 5)
    assert heard.texts().count("printed by a fork") == 5
    assert await arbiter.call(LOUD, "echo", "next") == "next"


async def test_what_has_no_newline_at_the_end_is_heard_when_the_worker_leaves() -> None:
    with records() as heard:
        async with serving(LOUD) as arbiter:
            await arbiter.call(LOUD, "unfinished")
            await arbiter.drain(10)
    assert "no newline" in heard.texts()
    assert heard.of("  File half a traceback")["message"].count("\n") == 2


# --- without a process --------------------------------------------------------------------------------------------


def forwarder(sent: list[Message], level: int = 20) -> LogForwarder:
    return LogForwarder(sent.append, level)


async def test_the_level_is_the_forwarders() -> None:
    sent: list[Message] = []
    forward = forwarder(sent, 30).forward
    for level in (10, 29, 30, 50):
        forward(level, "text")
    assert [message.head.level for message in sent if isinstance(message.head, Log)] == [30, 50]


@pytest.mark.parametrize("error", [DirtyConnectionError("gone"), LocalProtocolError("too large")])
async def test_what_cannot_be_sent_is_written_to_stderr(error: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(message: Message) -> None:
        raise error

    LogForwarder(refuse, 20).forward(30, "still heard \udce9")
    assert capfd.readouterr().err == "still heard \\udce9\n"


async def test_a_record_that_comes_out_of_sending_one_is_written_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    def send_and_log(message: Message) -> None:
        made.forward(30, "inner")

    made = LogForwarder(send_and_log, 20)
    made.forward(30, "outer")
    assert capfd.readouterr().err == "inner\n"


async def test_levels_of_a_number_only_are_repeated(heard: Records) -> None:
    for level in (5, 10, 25, 33, 50):
        log.repeat(level=level, text="{}", name="", worker=3, app=None, call=0, traceback=None)
    assert [record["level"].no for record in heard] == [5, 10, 25, 33, 50]
    assert set(heard.texts()) == {"{}"}
