from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dirtybus.errors import DirtyConnectionError, LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import (
    Call,
    Cancel,
    Chunk,
    Credit,
    Head,
    Log,
    Reply,
)
from dirtybus.protocol.messages import Message, encode_message
from dirtybus.transport.blocking import BlockingLink

LIMIT = 64 << 20
CALL = Call(app="a:B", action="do")


class Ends:
    """A caller's link, and a callee's link over the other end of the same socket pair."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.raw = theirs
        self.caller = BlockingLink(ours, Connection(Side.CALLER, LIMIT))
        self.callee = BlockingLink(theirs, Connection(Side.CALLEE, LIMIT))

    def close(self) -> None:
        self.caller.close()
        self.callee.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    both = Ends()
    yield both
    both.close()


def frame(head: Head, id: int = 1, body: bytes = b"") -> bytes:  # noqa: A002 - the field's name
    return b"".join(encode_message(Message(head, id, (body,) if body else ())))


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def joined(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_messages_cross_in_order_and_whole(ends: Ends) -> None:
    body = random.Random(1).randbytes(300_000)
    ends.caller.send(Message(CALL, 1, (b"one",)))
    sender = in_thread(lambda: ends.caller.send(Message(CALL, 2, (body, b"", memoryview(body), bytearray(b"end")))))
    first, second = ends.callee.receive(10), ends.callee.receive(10)
    assert first is not None
    assert second is not None
    assert (first.id, bytes(first.payload)) == (1, b"one")
    assert (second.id, bytes(second.payload)) == (2, body + body + b"end")
    joined(sender)


def test_a_frame_in_many_pieces_is_one_message(ends: Ends) -> None:
    data = frame(CALL, 1, b"x" * 2000)

    def dribble() -> None:
        for at in range(0, len(data), 100):
            ends.caller._sock.sendall(data[at : at + 100])

    thread = in_thread(dribble)
    message = ends.callee.receive(20)
    assert message is not None
    assert len(message.payload) == 2000
    joined(thread)


def test_many_parts_go_out_with_few_calls_and_all_of_them(ends: Ends) -> None:
    parts = tuple(bytes([n % 256]) * (n % 7) for n in range(1000))
    ends.caller.send(Message(CALL, 1, parts))
    message = ends.callee.receive(10)
    assert message is not None
    assert bytes(message.payload) == b"".join(parts)


def test_large_messages_both_ways_at_once_do_not_deadlock(ends: Ends) -> None:
    body = bytes(12 << 20)
    ends.caller.send(Message(CALL, 1))
    assert ends.callee.receive(10) is not None
    received: list[int] = []

    def receive(link: BlockingLink) -> None:
        message = link.receive(30)
        assert message is not None
        received.append(len(message.payload))

    joined(
        in_thread(lambda: receive(ends.caller)),
        in_thread(lambda: receive(ends.callee)),
        in_thread(lambda: ends.callee.send(Message(Reply(), 1, (body,)))),
        in_thread(lambda: ends.caller.send(Message(CALL, 2, (body,)))),
    )
    assert received == [len(body)] * 2


def test_threads_that_send_at_once_do_not_mix_their_messages(ends: Ends) -> None:
    def send(first: int) -> None:
        for number in range(first, first + 50):
            ends.caller.send(Message(CALL, number, (b"%d" % number, b"." * (number * 37))))

    senders = [in_thread(partial(send, first)) for first in (1, 51, 101, 151)]
    for _ in range(200):
        message = ends.callee.receive(20)
        assert message is not None
        assert bytes(message.payload) == b"%d" % message.id + b"." * (message.id * 37)
    joined(*senders)


def test_a_close_from_another_thread_wakes_a_blocked_receiver(ends: Ends) -> None:
    outcome: list[object] = []

    def receive() -> None:
        try:
            outcome.append(ends.callee.receive())
        except DirtyConnectionError as exc:
            outcome.append(exc)

    thread = in_thread(receive)
    while not _is_blocked(thread):
        time.sleep(0.001)
    ends.callee.close()
    joined(thread)
    assert outcome[0] is None or isinstance(outcome[0], DirtyConnectionError)


def _is_blocked(thread: threading.Thread) -> bool:
    """Whether the thread sleeps in the kernel, as far as that can be read."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return True


def test_a_peer_that_leaves_ends_receive_in_order_and_sending_with_an_error(ends: Ends) -> None:
    ends.callee.close()
    assert ends.caller.receive(10) is None
    assert ends.caller.receive_now() == []
    with pytest.raises(DirtyConnectionError):
        ends.caller.send(Message(CALL, 1))


def test_a_receiver_gives_up_at_its_deadline_even_if_bytes_keep_dribbling_in(ends: Ends) -> None:
    data, done = frame(CALL, 1, b"x" * 100_000), threading.Event()

    def dribble() -> None:
        for byte in data:
            if done.wait(0.01):
                return
            ends.caller._sock.sendall(bytes([byte]))

    thread = in_thread(dribble)
    began_at = time.monotonic()
    with pytest.raises(TimeoutError):
        ends.callee.receive(0.3)
    assert time.monotonic() - began_at < 5
    done.set()
    joined(thread)


def test_what_came_before_a_broken_frame_is_received_first(ends: Ends) -> None:
    ends.caller._sock.sendall(frame(CALL, 1) + frame(Credit(chunks=1), 1) + b"rubbish!" * 4)
    assert [ends.callee.receive(10) is not None for _ in range(2)] == [True, True]
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            ends.callee.receive(10)


def test_a_refused_message_sends_nothing(ends: Ends) -> None:
    with pytest.raises(LocalProtocolError):
        ends.callee.send(Message(Chunk(), 1))
    assert not select.select([ends.caller._sock], [], [], 0)[0]


class Talkative:
    """Sends a record when it is collected, as an object does whose finalizer prints."""

    def __init__(self, link: BlockingLink) -> None:
        self.link = link
        self.me = self  # a cycle: only the collector frees it
        self.refused: list[str] = []

    def __del__(self) -> None:
        try:
            self.link.send(Message(Log(level=30, text="bye"), 0))
        except LocalProtocolError as exc:
            self.refused.append(str(exc))


def test_a_finalizer_that_sends_in_the_middle_of_a_message_is_refused_and_does_not_deadlock(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    real = ends.callee._connection.send

    def send_with_a_collection(message: Message) -> list[bytes | bytearray | memoryview]:
        if isinstance(message.head, Reply):
            rubbish = Talkative(ends.callee)
            rubbish.refused = refused
            del rubbish
            gc.collect()
        return real(message)

    monkeypatch.setattr(ends.callee._connection, "send", send_with_a_collection)
    ends.caller.send(Message(CALL, 1))
    assert ends.callee.receive(10) is not None
    joined(in_thread(lambda: ends.callee.send(Message(Reply(), 1, (b"whole",)))))
    message = ends.caller.receive(10)
    assert message is not None
    assert (type(message.head), bytes(message.payload)) == (Reply, b"whole")
    assert len(refused) == 1


class Impatient(BaseException):
    pass


def test_an_exception_that_strikes_in_the_middle_of_a_message_closes_the_link(ends: Ends) -> None:
    def strike(number: int, frame: object) -> None:
        raise Impatient

    before = signal.signal(signal.SIGUSR2, strike)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2))
        timer.start()
        with pytest.raises(Impatient):
            ends.caller.send(Message(CALL, 1, (bytes(16 << 20),)))  # nobody reads: it blocks half-way
        timer.join()
    finally:
        signal.signal(signal.SIGUSR2, before)
    with pytest.raises(DirtyConnectionError):
        ends.caller.send(Message(Cancel(), 1))
    with pytest.raises(RemoteProtocolError, match="unfinished"):
        while ends.callee.receive(10):
            pass


def test_an_exception_that_strikes_while_nothing_comes_leaves_the_link_whole(ends: Ends) -> None:
    def strike(number: int, frame: object) -> None:
        raise Impatient

    before = signal.signal(signal.SIGUSR2, strike)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2))
        timer.start()
        with pytest.raises(Impatient):
            ends.callee.receive(None)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR2, before)
    ends.caller.send(Message(CALL, 1))
    assert ends.callee.receive(10) is not None
