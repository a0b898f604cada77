from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirtybus.errors import LocalProtocolError, RemoteProtocolError
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import Call, Chunk, Credit, Reply
from dirtybus.protocol.messages import Message, encode_message
from dirtybus.transport.link import Link, open_link

CALL = Message(Call(app="a:B", action="do"), 1)


class End:
    """One link and what it was told."""

    def __init__(self, side: Side) -> None:
        self.heard: list[Message] = []
        self.room: list[bool] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.link = Link(Connection(side, 1 << 24), self.heard.append, self.lost.set_result, self.room.append)

    async def until_heard(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.heard) < count:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def link_and_socket(side: Side) -> AsyncIterator[tuple[End, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ours.setblocking(False)
    end = End(side)
    await open_link(ours, end.link)
    try:
        yield end, theirs
    finally:
        theirs.close()
        end.link.abort()
        async with asyncio.timeout(10):
            await end.lost


def frame(message: Message) -> bytes:
    return b"".join(encode_message(message))


async def test_what_came_before_a_broken_frame_is_heard_and_then_the_link_is_lost_with_the_error() -> None:
    async with link_and_socket(Side.CALLEE) as (end, peer):
        peer.sendall(frame(CALL) + frame(Message(Credit(chunks=1), 1)) + b"rubbish!" * 4)
        assert isinstance(await end.lost, RemoteProtocolError)
        assert [type(message.head) for message in end.heard] == [Call, Credit]
        assert not end.link.is_open
        assert end.link.send(Message(Reply(), 1)) is False


async def test_a_peer_that_leaves_in_order_is_no_error_and_in_mid_message_is_one() -> None:
    for data, error in ((frame(CALL), type(None)), (frame(CALL)[:-3], RemoteProtocolError)):
        async with link_and_socket(Side.CALLEE) as (end, peer):
            peer.sendall(data)
            peer.close()
            assert isinstance(await end.lost, error)


async def test_a_message_that_may_not_be_sent_leaves_the_link_open() -> None:
    async with link_and_socket(Side.CALLEE) as (end, peer):
        with pytest.raises(LocalProtocolError):
            end.link.send(Message(Chunk(), 1))
        peer.sendall(frame(CALL))
        await end.until_heard(1)
        assert end.link.send(Message(Reply(), 1)) is True


async def test_a_full_buffer_is_told_and_so_is_room_in_it() -> None:
    async with link_and_socket(Side.CALLEE) as (end, peer):
        peer.sendall(frame(CALL))
        await end.until_heard(1)
        body = bytes(1 << 20)
        for _ in range(4):
            assert end.link.send(Message(Chunk(), 1, (body, b"tail")))
        assert end.room == [False]
        loop, received = asyncio.get_running_loop(), 0
        async with asyncio.timeout(20):
            while received < 4 * (len(body) + 4):
                received += len(await loop.sock_recv(peer, 1 << 20))
            while end.room != [False, True]:
                await asyncio.sleep(0.001)


async def test_while_reading_is_paused_nothing_is_heard() -> None:
    async with link_and_socket(Side.CALLEE) as (end, peer):
        end.link.pause_reading()
        end.link.pause_reading()
        peer.sendall(frame(CALL))
        for _ in range(20):
            await asyncio.sleep(0)
        assert end.heard == []
        end.link.resume_reading()
        end.link.resume_reading()
        await end.until_heard(1)


async def test_what_was_sent_leaves_before_the_link_closes() -> None:
    async with link_and_socket(Side.CALLEE) as (end, peer):
        peer.sendall(frame(CALL))
        await end.until_heard(1)
        end.link.send(Message(Reply(), 1, (bytes(3 << 20),)))
        end.link.close()
        end.link.close()
        loop, received = asyncio.get_running_loop(), 0
        async with asyncio.timeout(20):
            while data := await loop.sock_recv(peer, 1 << 20):
                received += len(data)
        assert received == len(frame(Message(Reply(), 1, (bytes(3 << 20),))))
