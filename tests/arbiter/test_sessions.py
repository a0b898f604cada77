from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest
import pytest_asyncio

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient
from dirtybus.protocol import heads
from dirtybus.protocol.connection import CLOSED, NEED_DATA, Connection, Side
from dirtybus.protocol.frames import HEADER
from dirtybus.protocol.heads import Head, Kind
from dirtybus.protocol.messages import Message, encode_message
from dirtybus.stash.ops import encode_op
from dirtybus.stash.ops_many import Info
from tests.arbiter.serving import BASIC, serving, until
from tests.protocol.test_messages import ONE_OF_EACH

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADS = {head.kind: head for head in ONE_OF_EACH}
NO_ARGUMENTS = b"\x00\x92\x90\x80"
WITHIN_S = 20.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def arbiter(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Arbiter]:
    path = tmp_path_factory.mktemp("socket") / "s"
    async with serving(BASIC, socket=str(path), threads=4) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def good_client(arbiter: Arbiter) -> AsyncIterator[None]:
    """A client beside the hostile one, whose every call must be answered."""
    assert arbiter.config.socket is not None
    client, answered, is_over = DirtyClient(arbiter.config.socket), 0, asyncio.Event()

    async def call_on_and_on() -> None:
        nonlocal answered
        for number in itertools.count():
            assert await client.execute_async(BASIC, "echo", number) == number
            answered += 1
            await asyncio.sleep(0.001)
            if is_over.is_set() and number > 2:
                return

    calling = asyncio.create_task(call_on_and_on())
    await until(lambda: answered or calling.done())
    yield
    is_over.set()
    async with asyncio.timeout(WITHIN_S):
        await calling
    await client.close_async()


class Peer:
    """A client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._connection = Connection(Side.CALLER, 2**32 - 1)
        self._heard: list[Message] = []

    def say(self, *data: bytes) -> None:
        for part in data:
            self.writer.write(part)

    def send(self, head: Head, id: int = 1, body: bytes = b"") -> None:  # noqa: A002 - the field's name
        """Send what the protocol allows."""
        self.say(*map(bytes, self._connection.send(Message(head, id, (body,) if body else ()))))

    async def hear(self) -> Message:
        async with asyncio.timeout(WITHIN_S):
            while (event := self._connection.next_event()) is NEED_DATA:
                self._connection.receive_data(await self.reader.read(1 << 16))
        assert event is not CLOSED, "the arbiter hung up"
        return event

    async def rest(self) -> bytes:
        """Return what is said until the arbiter hangs up."""
        async with asyncio.timeout(WITHIN_S):
            with suppress(ConnectionError):
                return await self.reader.read()
        return b""


@asynccontextmanager
async def peer(arbiter: Arbiter) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_unix_connection(arbiter.config.socket)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def frame(head: Head, id: int = 1, body: bytes = b"") -> bytes:  # noqa: A002 - the field's name
    return b"".join(encode_message(Message(head, id, (body,) if body else ())))


def call(action: str = "echo", app: str = BASIC, **fields: Any) -> heads.Call:
    return heads.Call(app=app, action=action, **fields)


CALL = frame(call(), body=NO_ARGUMENTS)
ONLY_FROM_THE_ARBITER = [
    Kind.REPLY, Kind.FAILURE, Kind.CHUNK, Kind.END, Kind.PROGRESS, Kind.DRAIN, Kind.ANSWER, Kind.REFUSAL, Kind.READY,
    Kind.INSPECTED, Kind.BOOT_FAILED, Kind.LOG,
]  # fmt: skip
ONLY_TO_WORKERS = [Kind.BOOT, Kind.STOP, Kind.INSPECT]
RUBBISH = {
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "noise": Random(7).randbytes(300),
    "noise with our magic": b"GD\x02" + Random(8).randbytes(300),
    "noise in the old protocol": b"GD\x01\x01" + Random(9).randbytes(300),
    "another version": b"GD\x07\x01" + bytes(12),
    "an unknown kind": HEADER.pack(b"GD", 2, 0xEE, 4, 1) + bytes(4),
    "more than the limit": HEADER.pack(b"GD", 2, Kind.CALL, 2**32 - 1, 1),
    "no head": HEADER.pack(b"GD", 2, Kind.CALL, 4, 1) + bytes(4),
    "a head of depth without end": HEADER.pack(b"GD", 2, Kind.CALL, 100_004, 1)
    + (100_000).to_bytes(4, "big")
    + b"\x91" * 100_000,
    "an id twice": frame(call("asleep"), body=b"\x00\x92\x91\x1e\x80") + CALL,
    "rubbish after a good call": CALL + b"rubbish!" * 4,
    **{f"{kind.name} without a call": frame(HEADS[kind]) for kind in ONLY_FROM_THE_ARBITER},
    **{f"{kind.name} on a call": CALL + frame(HEADS[kind]) for kind in ONLY_FROM_THE_ARBITER},
    **{f"{kind.name} from a client": frame(HEADS[kind]) for kind in ONLY_TO_WORKERS},
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH.keys())
async def test_who_breaks_the_protocol_is_hung_up_on_alone(arbiter: Arbiter, rubbish: bytes) -> None:
    async with peer(arbiter) as hostile:
        hostile.say(rubbish)
        await hostile.rest()


async def test_a_peer_that_leaves_in_the_middle_of_anything_is_forgotten(arbiter: Arbiter) -> None:
    for cut in range(0, len(CALL), 3):
        async with peer(arbiter) as hostile:
            hostile.say(CALL[:cut])
            hostile.writer.write_eof()
            await hostile.rest()
    assert arbiter._door is not None
    door = arbiter._door
    await until(lambda: len(door._sessions) == 1 and not door._waiting)


async def test_peers_that_say_nothing_cost_nothing(arbiter: Arbiter) -> None:
    silent = [await asyncio.open_unix_connection(arbiter.config.socket) for _ in range(50)]
    for _, writer in silent[:25]:
        writer.write(b"G")
    async with peer(arbiter) as late:
        late.send(call(), body=NO_ARGUMENTS)
        assert isinstance((await late.hear()).head, heads.Reply)
    for _, writer in silent:
        writer.close()
        await writer.wait_closed()


async def test_a_large_message_that_is_announced_and_never_comes_takes_no_memory(arbiter: Arbiter) -> None:
    before = psutil.Process().memory_info().rss
    announced = HEADER.pack(b"GD", 2, Kind.CALL, 60 << 20, 1) + bytes(1000)
    peers = [await asyncio.open_unix_connection(arbiter.config.socket) for _ in range(20)]
    for _, writer in peers:
        writer.write(announced)
        await writer.drain()
    assert arbiter._door is not None
    door = arbiter._door
    await until(lambda: len(door._sessions) == 21)
    assert psutil.Process().memory_info().rss - before < 40 << 20, "20 times 60 MB were announced"
    for _, writer in peers:
        writer.close()
        await writer.wait_closed()


async def test_a_client_that_does_not_read_its_answers_is_not_read_either(arbiter: Arbiter) -> None:
    before = psutil.Process().memory_info().rss
    questions = 4000
    async with peer(arbiter) as hostile:
        for number in range(questions):
            hostile.send(heads.StatusAsk(), number)
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert psutil.Process().memory_info().rss - before < 80 << 20
        heard = {(await hostile.hear()).id for _ in range(questions)}
        assert heard == set(range(questions))


async def test_no_credit_buys_more_than_a_window_that_is_not_read(arbiter: Arbiter, tmp_path: Path) -> None:
    mark = tmp_path / "closed"
    sent = Path(f"{mark}.sent")
    arguments = b"\x00\x92\x91" + bytes([0xD9, len(str(mark))]) + str(mark).encode() + b"\x80"
    async with peer(arbiter) as hostile:
        hostile.send(call("endless", window=2**62), body=arguments)
        for chunks in (2**62, -5, 2**62):
            hostile.send(heads.Credit(chunks=chunks))
        await until(lambda: sent.exists() and int(sent.read_text() or 0) >= 4096)
        for _ in range(20):
            assert await arbiter.call(BASIC, "echo", 1) == 1
        assert int(sent.read_text() or 0) <= 3 * 4096
    await until(mark.exists)


@pytest.mark.parametrize("time_left_s", [math.nan, -1.0, 0.0, math.inf, 1e300])
async def test_a_deadline_that_is_none_harms_nobody(arbiter: Arbiter, time_left_s: float) -> None:
    async with peer(arbiter) as hostile:
        hostile.send(call(time_left_s=time_left_s), body=NO_ARGUMENTS)
        assert isinstance((await hostile.hear()).head, heads.Reply | heads.Failure)
        hostile.send(call("asleep", time_left_s=0.2), 2, b"\x00\x92\x91\x1e\x80")  # the pool's clock still runs
        head = (await hostile.hear()).head
        assert isinstance(head, heads.Failure)
        assert head.error["code"] == "timeout"


async def test_the_calls_of_a_client_that_leaves_are_cancelled(arbiter: Arbiter) -> None:
    before = arbiter.ledger.cancelled
    async with peer(arbiter) as leaving:
        for number in range(30):
            leaving.send(call("asleep"), number, b"\x00\x92\x91\x1e\x80")
        await until(lambda: arbiter.ledger.open >= 30)
    await until(lambda: arbiter.ledger.cancelled >= before + 30)


async def test_an_id_may_be_used_again_after_its_last_word(arbiter: Arbiter) -> None:
    async with peer(arbiter) as client:
        for _ in range(20):
            client.send(call(), 5, NO_ARGUMENTS)
            assert (await client.hear()).id == 5


async def test_a_name_as_long_as_a_message_is_refused_quickly(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    limit = 4 << 20
    async with serving(BASIC, socket=path, max_payload_bytes=limit) as arbiter, peer(arbiter) as hostile:
        name = "n" * (limit - 300)
        began_at = time.monotonic()
        hostile.send(call(app=name), 1, NO_ARGUMENTS)
        hostile.send(call(name), 2, NO_ARGUMENTS)
        hostile.send(heads.StashAsk(), 3, encode_op(Info(name)))
        hostile.send(heads.Manage(verb=name), 4)
        heard = [await hostile.hear() for _ in range(4)]
        assert time.monotonic() - began_at < 5
        codes = [
            message.head.error["code"] for message in heard if isinstance(message.head, heads.Failure | heads.Refusal)
        ]
        assert codes[:2] == ["app_not_found", "action_not_found"]
        assert len(codes) == 4
        hostile.send(call(), 5, NO_ARGUMENTS)
        assert isinstance((await hostile.hear()).head, heads.Reply)


async def test_a_client_has_a_bounded_number_of_open_calls(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(BASIC, socket=path, max_queued=5) as arbiter, peer(arbiter) as greedy:
        for number in range(8):
            greedy.send(call("asleep"), number, b"\x00\x92\x91\x1e\x80")
        refused = [await greedy.hear() for _ in range(3)]
        assert {message.id for message in refused} == {5, 6, 7}
        assert {message.head.error["code"] for message in refused if isinstance(message.head, heads.Failure)} == {
            "queue_full"
        }
        assert await arbiter.call(BASIC, "echo", "beside") == "beside"
