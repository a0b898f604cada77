"""What a connection makes of an arbiter that answers, closes, and is written to before anybody has read that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirtybus.client.async_channel import AsyncChannel
from dirtybus.client.patience import Patience
from dirtybus.client.sync_channel import SyncChannel
from dirtybus.errors import DirtyConnectionError
from dirtybus.protocol.arguments import encode_arguments
from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.protocol.connection import NEED_DATA, Connection, Side
from dirtybus.protocol.heads import Call, Drain, Hello, Reply
from dirtybus.protocol.messages import Message

BODY = encode_arguments((), None)
CALL = Call(app="shop:Model", action="buy")
GREETING = Hello(role="arbiter", pid=1, version="0")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        yield listener


def answer_and_close(server: socket.socket, *, reads: bool) -> None:
    """Say hello, answer call 1, drain, and be gone: with what the client has sent read, or not."""
    peer, _ = server.accept()
    connection = Connection(Side.CALLEE, 1 << 20)
    connection.receive_data(peer.recv(1 << 16, 0 if reads else socket.MSG_PEEK))
    while connection.next_event() is not NEED_DATA:
        pass
    for message in (Message(GREETING), Message(Reply(), 1, encode_body("answer")), Message(Drain())):
        peer.sendall(b"".join(connection.send(message)))
    peer.close()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_task_that_writes_to_an_arbiter_that_left_does_not_lose_another_tasks_answer(
    server: socket.socket, reads: bool
) -> None:
    channel = await AsyncChannel.open(server.getsockname(), 5.0, 32, greets=True)
    answered = asyncio.create_task(channel.execute("shop:Model", "buy", BODY, Patience(None)))
    await asyncio.sleep(0)
    answer_and_close(server, reads=reads)
    with pytest.raises(DirtyConnectionError) as caught:
        channel.execute("shop:Model", "buy", BODY, Patience(None)).send(None)  # it gets no chance to read
    assert caught.value.started is False
    async with asyncio.timeout(10):
        assert await answered == "answer"
    assert channel.peer.is_draining
    await channel.close()


@pytest.mark.parametrize("reads", [True, False])
def test_a_thread_that_writes_to_an_arbiter_that_left_does_not_lose_another_threads_answer(
    server: socket.socket, reads: bool
) -> None:
    channel = SyncChannel(server.getsockname(), 5.0, greets=True)
    first = channel.start(CALL, BODY)
    answer_and_close(server, reads=reads)
    second = channel.start(CALL, BODY)
    assert decode_body(channel.next(first, None).payload) == "answer"
    with pytest.raises(DirtyConnectionError) as caught:
        channel.next(second, None)
    assert caught.value.started is False
    assert channel.peer.is_draining
    channel.close()


def test_an_idle_channel_hears_that_its_arbiter_drains(server: socket.socket) -> None:
    channel = SyncChannel(server.getsockname(), 5.0, greets=True)
    peer, _ = server.accept()
    connection = Connection(Side.CALLEE, 1 << 20)
    for message in (Message(GREETING), Message(Drain())):
        peer.sendall(b"".join(connection.send(message)))
    assert channel.is_usable
    assert channel.peer.is_draining
    channel.close()
    peer.close()


async def test_cancelling_while_it_connects_leaves_no_socket_open(server: socket.socket) -> None:
    opening = asyncio.create_task(AsyncChannel.open(server.getsockname(), 5.0, 32))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    server.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        peer, _ = await loop.sock_accept(server)
        assert await loop.sock_recv(peer, 1) == b"", "our end was closed"
    peer.close()
