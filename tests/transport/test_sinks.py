from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dirtybus.errors import DirtyAppError, DirtyError, DirtyTimeoutError
from dirtybus.protocol.codec import encode_body
from dirtybus.protocol.heads import Progress
from dirtybus.transport.sinks import StreamSink, ValueSink


def body(value: object) -> bytes:
    return b"".join(encode_body(value))


BROKEN = b"\x00\xc1"


@pytest.fixture
async def complaints() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    return found


async def test_a_value_is_what_was_replied_and_a_list_what_was_yielded() -> None:
    credit: list[int] = []
    plain, gathered = ValueSink(credit.append), ValueSink(credit.append)
    plain.reply(body((1, 2)))
    for number in range(3):
        gathered.chunk(body(number))
    gathered.end()
    assert await plain.outcome == (1, 2)
    assert await gathered.outcome == [0, 1, 2]
    assert credit == [1, 1, 1]


async def test_a_listener_that_fails_is_complained_of_and_the_call_goes_on(complaints: list[dict[str, Any]]) -> None:
    def fail(news: object) -> None:
        raise ZeroDivisionError

    value, stream = ValueSink(lambda _: None, fail, fail), StreamSink(lambda _: None, 4, fail)
    for sink in (value, stream):
        sink.progress(Progress(done=1.0))
        sink.chunk(body("chunk"))
        sink.end()
    assert await value.outcome == ["chunk"]
    assert await stream.read(1) == ("chunk",)
    assert [type(context["exception"]) for context in complaints] == [ZeroDivisionError] * 3


async def test_a_body_that_cannot_be_read_fails_its_call_and_nothing_else() -> None:
    heard: list[object] = []
    told, replied, gathered = ValueSink(lambda _: None, None, heard.append), *(ValueSink(lambda _: None) for _ in "ab")
    told.chunk(BROKEN)
    told.end()
    replied.reply(BROKEN)
    gathered.chunk(BROKEN)
    gathered.end()
    for sink in (told, replied, gathered):
        with pytest.raises(DirtyError):
            await sink.outcome
    assert heard == []
    stream = StreamSink(lambda _: None, 4)
    stream.chunk(BROKEN)
    with pytest.raises(DirtyError):
        await stream.read(1)


async def test_a_word_after_the_last_is_ignored() -> None:
    sink = ValueSink(lambda _: None)
    sink.fail(DirtyAppError("first"))
    sink.reply(body(1))
    sink.end()
    sink.fail(DirtyAppError("second"))
    with pytest.raises(DirtyAppError, match="first"):
        await sink.outcome


@pytest.mark.parametrize("window", [1, 2, 7, 32])
async def test_a_reader_that_reads_never_leaves_the_worker_without_credit(window: int) -> None:
    left = window

    def give(chunks: int) -> None:
        nonlocal left
        left += chunks

    sink = StreamSink(give, window)
    for number in range(200):
        assert left > 0, "the worker would wait for ever"
        left -= 1
        sink.chunk(body(number))
        assert await sink.read(1) == (number,)
    assert left <= window


async def test_chunks_come_before_the_error_and_the_end_is_none() -> None:
    sink = StreamSink(lambda _: None, 4)
    sink.chunk(body(1))
    sink.fail(DirtyAppError("bad"))
    assert await sink.read(1) == (1,)
    for _ in range(2):
        with pytest.raises(DirtyAppError, match="bad"):
            await sink.read(1)
    ended = StreamSink(lambda _: None, 4)
    ended.reply(body("only"))
    assert ended.is_ended
    assert await ended.read(1) == ("only",)
    assert await ended.read(1) is None


async def test_a_wait_for_a_chunk_ends_at_the_idle_limit_and_may_be_taken_up_again() -> None:
    sink = StreamSink(lambda _: None, 4)
    with pytest.raises(DirtyTimeoutError) as caught:
        await sink.read(0.01)
    assert (caught.value.whose, caught.value.phase) == ("stream_idle_timeout", "stream")
    reading = asyncio.create_task(sink.read(10))
    await asyncio.sleep(0)
    sink.chunk(body("late"))
    assert await reading == ("late",)
