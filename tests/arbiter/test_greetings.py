"""What an arbiter says to a client of itself: which actions may be sent again, and that nothing is left unsaid."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.arbiter.directory import Directory
from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyError, Draining, QueueFull
from dirtybus.protocol.arguments import encode_arguments
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.heads import Call, Failure, Goodbye, Hello
from dirtybus.protocol.messages import Message, encode_message
from dirtybus.transport.link import Link, open_link
from dirtybus.transport.listener import connect
from tests.arbiter.serving import BASIC, serving, until


class Client(Link):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(Connection(Side.CALLER, 1 << 26), lambda message: self.told.append(message), self._note_lost)
        self.told: list[Message] = []
        self.is_lost = False

    def _note_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def ask(self, number: int, action: str, *args: Any) -> None:
        self.send(Message(Call(app=BASIC, action=action), number, encode_arguments(args, None)))

    def errors(self) -> dict[int, DirtyError]:
        return {m.id: DirtyError.from_dict(m.head.error) for m in self.told if isinstance(m.head, Failure)}


async def attached(path: str) -> Client:
    client, sock = Client(), connect(path)
    sock.setblocking(False)
    await open_link(sock, client)
    client.send(Message(Hello(role="client", pid=1, version="0")))
    await until(lambda: client.told)
    return client


def greeting(client: Client) -> Hello:
    head = client.told[0].head
    assert isinstance(head, Hello)
    return head


async def test_an_arbiter_says_which_actions_may_be_sent_again(tmp_path: Path) -> None:
    async with serving(socket=str(tmp_path / "s")) as arbiter:
        assert arbiter.config.socket is not None
        client = await attached(arbiter.config.socket)
        assert {tuple(pair) for pair in greeting(client).idempotent} == {
            (BASIC, "die_once"),
            (BASIC, "poison"),
            (BASIC, "echo_twice"),
        }


async def test_an_arbiter_that_closes_has_the_last_word_on_every_call_and_then_says_goodbye(tmp_path: Path) -> None:
    async with serving(socket=str(tmp_path / "s"), workers=1) as arbiter:
        assert arbiter.config.socket is not None
        client = await attached(arbiter.config.socket)
        client.ask(1, "until_cancelled", str(tmp_path / "mark"))
        await until((tmp_path / "mark.began").exists)
        client.ask(2, "echo", "waits")
        await until(lambda: arbiter.ledger.open == 2)
        client.ask(3, "echo", "comes too late to be read")
        await arbiter.close()
        await until(lambda: client.is_lost)
    assert isinstance(client.told[-1].head, Goodbye)
    errors = client.errors()
    assert errors.keys() <= {1, 2, 3}
    assert errors.keys() >= {1, 2}
    assert {number: isinstance(error, Draining) and error.started for number, error in errors.items()} == {
        number: number == 1 for number in errors
    }


async def test_a_drain_that_is_cut_says_which_calls_may_have_begun(tmp_path: Path) -> None:
    async with serving(workers=1) as arbiter:
        running = asyncio.create_task(arbiter.call(BASIC, "stubborn", str(tmp_path / "mark"), 30))
        await until((tmp_path / "mark.began").exists)
        waiting = asyncio.create_task(arbiter.call(BASIC, "echo", 1))
        await until(lambda: arbiter.ledger.open == 2)
        await arbiter.drain(0.05)
        for call, started in ((running, True), (waiting, False)):
            with pytest.raises(Draining) as caught:
                await call
            assert caught.value.started is started


@pytest.mark.parametrize(("queue_full", "waits"), [("refuse", None), ("wait", True)])
async def test_a_client_with_too_many_calls_is_told_to_wait_where_the_settings_say_so(
    tmp_path: Path, queue_full: str, waits: bool | None
) -> None:
    async with serving(socket=str(tmp_path / "s"), workers=1, max_queued=2, queue_full=queue_full) as arbiter:
        assert arbiter.config.socket is not None
        client = await attached(arbiter.config.socket)
        for number in range(1, 4):
            client.ask(number, "until_cancelled_async", str(tmp_path / "mark"))
        await until(client.errors)
        ((number, error),) = client.errors().items()
        assert isinstance(error, QueueFull)
        assert (number, error.details.get("wait")) == (3, waits)
        client.close()
        await until(lambda: arbiter.ledger.open == 0)


def test_before_the_start_there_is_nothing_to_announce() -> None:
    assert Arbiter(DirtyConfig.of(BASIC)).idempotent_actions() == ()


def test_a_greeting_fits_into_a_socket_at_once() -> None:
    actions = {f"{'x' * 40}{number}": {"idempotent": True} for number in range(10_000)}
    short = {f"x{number}": {"idempotent": True} for number in range(10_000)}
    for each in (actions, short):
        report = {"path": "a:B", "stashes": [], "actions": each, "on_cancel": "kill", "on_drain": "finish"}
        directory = Directory(DirtyConfig.of("a:B"), [report])
        assert 500 < len(directory.idempotent) <= 4096
        hello = Hello(role="arbiter", pid=1 << 22, version="10.10.10", idempotent=directory.idempotent)
        assert sum(map(len, encode_message(Message(hello)))) < 80_000
