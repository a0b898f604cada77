from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.client import DirtyClient, close_dirty_client_async, get_dirty_client_async
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError, DirtyConnectionError, DirtyTimeoutError, Draining, QueueFull, Unavailable
from dirtybus.protocol.heads import Call, Cancel, Hello
from dirtybus.protocol.messages import Message
from tests.arbiter.serving import BASIC, serving, until
from tests.client.owners import APP, ONCE, TWICE, Peer, owning, replies

RECONNECT_S = 20.0


class Way:
    """A client as tasks use it, or as threads do."""

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self.is_async = kind == "tasks"
        self.client = DirtyClient(path, reconnect_s=RECONNECT_S)
        self._threads = ThreadPoolExecutor(32)

    def call(self, action: str, *args: Any, app: str = APP, **limits: Any) -> asyncio.Future[Any]:
        if self.is_async:
            return asyncio.ensure_future(self.client.request_async(app, action, args, **limits))
        request = functools.partial(self.client.request, app, action, args, **limits)
        return asyncio.get_running_loop().run_in_executor(self._threads, request)

    def stream(self, action: str, got: list[Any]) -> asyncio.Task[Any]:
        """Read a stream into ``got``."""

        async def in_task() -> None:
            async for chunk in self.client.stream_async(APP, action):
                got.append(chunk)

        return asyncio.create_task(
            in_task() if self.is_async else asyncio.to_thread(lambda: got.extend(self.client.stream(APP, action)))
        )

    async def close(self) -> None:
        if self.is_async:
            await self.client.close_async()
        else:
            self.client.close()
        self._threads.shutdown(wait=False)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a.sock")


@pytest.fixture(params=["tasks", "threads"])
async def way(path: str, request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    one = Way(path, request.param)
    yield one
    await one.close()


async def in_time(call: asyncio.Future[Any]) -> Any:
    async with asyncio.timeout(30):
        return await call


# --- what certainly was not taken ---


async def test_a_call_waits_for_an_owner_that_is_not_there_yet(way: Way, path: str) -> None:
    call = way.call(ONCE, 1)
    await asyncio.sleep(0.1)
    assert not call.done()
    async with owning(path, on_call=replies) as owner:
        assert await in_time(call) == 1
        assert len(owner.calls) == 1
    assert (way.client.resent, way.client.unknown) == (0, 0)


async def test_a_refused_call_is_sent_again_to_the_next_owner(way: Way, path: str) -> None:
    def refuse(peer: Peer, call: Message) -> None:
        peer.fail(call, Draining("leaving"))

    async with owning(path, on_call=refuse) as owner:
        call = way.call(ONCE, 1)
        await owner.hear()
    async with owning(path, on_call=replies):
        assert await in_time(call) == 1
    assert way.client.resent >= 1


async def test_a_call_that_crossed_the_owners_goodbye_is_sent_again_whatever_it_does(way: Way, path: str) -> None:
    async with owning(path) as owner:
        call = way.call(ONCE, 1)
        await owner.hear()
        owner.peers[0].leave()  # what our owner heard, a real one would not have read
        await until(lambda: owner.peers[0].is_lost)
    async with owning(path, on_call=replies):
        assert await in_time(call) == 1
    assert (way.client.resent, way.client.unknown) == (1, 0)


async def test_a_call_to_an_owner_that_never_answered_the_greeting_was_not_read(way: Way, path: str) -> None:
    async with owning(path, greets=False) as owner:
        call = way.call(ONCE, 1)
        await owner.hear()
        owner.peers[0].abort()
        await until(lambda: owner.peers[0].is_lost)
    async with owning(path, on_call=replies):
        assert await in_time(call) == 1
    assert way.client.unknown == 0


async def test_nothing_is_sent_to_an_owner_that_said_it_drains(way: Way, path: str) -> None:
    async with owning(path, on_call=replies) as owner:
        assert await in_time(way.call(ONCE, 1)) == 1
        owner.on_call = None
        under_way = way.call(ONCE, 2)
        await owner.hear(2)
        owner.peers[0].drain()
        owner.peers[0].reply(owner.calls[1], "the last")  # a thread that shares the connection reads the drain first
        assert await in_time(under_way) == "the last"
        late = way.call(ONCE, 3)
        await asyncio.sleep(0.2)
        assert len(owner.calls) == 2
        assert len(owner.peers) == 1
    async with owning(path, on_call=replies):
        assert await in_time(late) == 3


async def test_an_app_that_is_not_available_now_is_asked_again(way: Way, path: str) -> None:
    answers = iter([True, False])

    def refuse_first(peer: Peer, call: Message) -> None:
        if next(answers):
            peer.fail(call, Unavailable("its workers boot", retry_after_s=0.05))
        else:
            peer.reply(call)

    async with owning(path, on_call=refuse_first):
        assert await in_time(way.call(ONCE, 1)) == 1
    assert way.client.resent == 1


# --- what nobody knows of ---


async def test_an_unanswered_call_of_a_plain_action_is_reported_and_not_sent_again(way: Way, path: str) -> None:
    async with owning(path) as owner:
        call = way.call(ONCE, 1)
        await owner.hear()
    async with owning(path, on_call=replies) as owner:
        with pytest.raises(DirtyConnectionError, match="may or may not have run, .* not declared idempotent") as caught:
            await in_time(call)
        assert caught.value.started is None
        assert await in_time(way.call(ONCE, 2)) == 2
        assert len(owner.calls) == 1
    assert (way.client.resent, way.client.unknown) == (0, 1)


async def test_an_unanswered_call_of_an_idempotent_action_is_sent_again(way: Way, path: str) -> None:
    async with owning(path) as owner:
        call = way.call(TWICE, "again", timeout_s=30)
        (first,) = await owner.hear()
    async with owning(path, on_call=replies) as owner:
        assert await in_time(call) == "again"
        (second,) = owner.calls
    assert isinstance(first.head, Call)
    assert isinstance(second.head, Call)
    assert (second.head.app, second.head.action, second.payload) == (first.head.app, first.head.action, first.payload)
    assert first.head.time_left_s == 30
    assert second.head.time_left_s is not None
    assert second.head.time_left_s < 30, "what travels is what is left"
    assert (way.client.resent, way.client.unknown) == (1, 0)


async def test_a_call_that_an_owner_cut_short_is_sent_again_only_if_it_may_run_twice(way: Way, path: str) -> None:
    def cut(peer: Peer, call: Message) -> None:
        peer.fail(call, Draining("not run to its end", {"started": True}))

    async with owning(path, on_call=cut) as owner:
        once, twice = way.call(ONCE, 1), way.call(TWICE, 2)
        with pytest.raises(Draining) as caught:
            await in_time(once)
        assert caught.value.started
        await owner.hear(2)
    async with owning(path, on_call=replies):
        assert await in_time(twice) == 2
    assert way.client.unknown == 1


async def test_each_of_many_calls_on_one_lost_connection_gets_its_due(way: Way, path: str) -> None:
    async with owning(path) as owner:
        once, twice = [way.call(ONCE, n) for n in range(8)], [way.call(TWICE, n) for n in range(8)]
        await owner.hear(16)
        assert len(owner.peers) == 1
    async with owning(path, on_call=replies) as owner:
        assert [await in_time(call) for call in twice] == list(range(8))
        for call in once:
            with pytest.raises(DirtyConnectionError, match="may or may not have run"):
                await in_time(call)
        assert len(owner.calls) == 8
    assert (way.client.resent, way.client.unknown) == (8, 8)


# --- streams ---


async def test_a_stream_without_chunks_yet_is_sent_again(way: Way, path: str) -> None:
    def stream(peer: Peer, call: Message) -> None:
        peer.chunk(call, "one")
        peer.end(call)

    got: list[Any] = []
    async with owning(path) as owner:
        reading = way.stream(TWICE, got)
        await owner.hear()
    async with owning(path, on_call=stream):
        await in_time(reading)
    assert got == ["one"]


async def test_a_stream_is_not_sent_again_once_a_chunk_has_arrived(way: Way, path: str) -> None:
    got: list[Any] = []
    async with owning(path) as owner:
        reading = way.stream(TWICE, got)
        (call,) = await owner.hear()
        owner.peers[0].chunk(call, "one")
        await until(lambda: got == ["one"] or not way.is_async)
    async with owning(path, on_call=replies) as owner:
        with pytest.raises(DirtyConnectionError, match="chunks of it had arrived"):
            await in_time(reading)
        assert owner.calls == []
    assert got in (["one"], [])  # list.extend in a thread loses what came before an error
    assert way.client.unknown == 1


async def test_the_chunks_that_were_gathered_before_a_loss_are_not_in_the_list(way: Way, path: str) -> None:
    def stream(peer: Peer, call: Message) -> None:
        peer.chunk(call, "whole")
        peer.end(call)

    async with owning(path) as owner:
        call = way.call(TWICE)
        (heard,) = await owner.hear()
        owner.peers[0].chunk(heard, "half")
    async with owning(path, on_call=stream):
        assert await in_time(call) == ["whole"]


# --- limits ---


async def test_without_reconnect_the_first_trouble_is_told(path: str) -> None:
    client = DirtyClient(path)
    with pytest.raises(DirtyConnectionError) as caught:
        await client.execute_async(APP, TWICE)
    assert caught.value.started is False
    async with owning(path) as owner:
        call = asyncio.create_task(client.execute_async(APP, TWICE))
        await owner.hear()
        assert not [m for m in owner.peers[0].heard if isinstance(m.head, Hello)]
    with pytest.raises(DirtyConnectionError, match="may or may not have run$"):
        await in_time(call)
    assert (client.resent, client.unknown) == (0, 1)
    await client.close_async()


async def test_the_deadline_ends_the_waiting_for_an_owner(way: Way) -> None:
    with pytest.raises(DirtyTimeoutError, match="cannot reach") as caught:
        await in_time(way.call(TWICE, timeout_s=0.3))
    assert caught.value.phase == "unreached"


async def test_reconnect_s_ends_the_waiting_for_an_owner(path: str) -> None:
    client = DirtyClient(path, reconnect_s=0.3)
    for call in (client.execute_async(APP, ONCE), asyncio.to_thread(client.execute, APP, ONCE)):
        with pytest.raises(DirtyConnectionError, match="cannot reach") as caught:
            async with asyncio.timeout(10):
                await call
        assert caught.value.started is False


async def test_the_processes_client_can_be_one_that_waits_for_an_owner(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIRTYBUS_SOCKET", path)
    client = await get_dirty_client_async(reconnect_s=RECONNECT_S)
    call = asyncio.create_task(client.execute_async(APP, ONCE, 1))
    async with owning(path, on_call=replies):
        assert await in_time(call) == 1
    await close_dirty_client_async()


@pytest.mark.parametrize("wrong", [-1.0, float("inf"), float("nan")])
def test_reconnect_s_is_a_span(wrong: float) -> None:
    with pytest.raises(ConfigError, match="reconnect_s"):
        DirtyClient("/s", reconnect_s=wrong)


async def test_a_client_that_is_closed_ends_its_calls_and_sends_none_again(way: Way, path: str) -> None:
    async with owning(path) as owner:
        under_way = way.call(TWICE, 1)
        await owner.hear()
        await way.close()
        with pytest.raises(DirtyConnectionError, match="client was closed"):
            await in_time(under_way)
        await until(lambda: owner.peers[0].is_lost)
        assert len(owner.peers) == 1


async def test_a_client_that_is_closed_while_a_call_waits_for_an_owner_ends_it(way: Way) -> None:
    waiting = way.call(TWICE, 1)
    while not waiting.done():  # it may not have got as far as the pause
        await way.close()
        await asyncio.sleep(0.01)
    with pytest.raises(DirtyConnectionError, match="client was closed"):
        await waiting


async def test_cancelling_a_call_that_waits_for_an_owner_leaves_nothing_behind(path: str) -> None:
    client = DirtyClient(path, reconnect_s=RECONNECT_S)
    cancelled = asyncio.create_task(client.execute_async(APP, ONCE, "cancelled"))
    other = asyncio.create_task(client.execute_async(APP, ONCE, "other"))
    await asyncio.sleep(0.1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    async with owning(path, on_call=replies) as owner:
        assert await in_time(other) == "other"
        assert await client.execute_async(APP, ONCE, "next") == "next"
        assert len(owner.calls) == 2
    await client.close_async()


async def test_cancelling_a_call_that_was_sent_again_cancels_it_at_the_new_owner(path: str) -> None:
    client = DirtyClient(path, reconnect_s=RECONNECT_S)
    async with owning(path) as owner:
        call = asyncio.create_task(client.execute_async(APP, TWICE))
        await owner.hear()
    async with owning(path) as owner:
        (again,) = await owner.hear()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: [m for m in owner.peers[0].heard if isinstance(m.head, Cancel) and m.id == again.id])
    await client.close_async()


# --- a full queue ---


def full_for(times: int, **details: Any) -> Callable[[Peer, Message], None]:
    """As ``on_call``: refuse so often, then answer."""
    left = times

    def answer(peer: Peer, call: Message) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            peer.fail(call, QueueFull("full", details, retry_after_s=0.02))
        else:
            peer.reply(call)

    return answer


@pytest.mark.parametrize("kind", ["tasks", "threads"])
async def test_a_full_queue_that_asks_to_wait_is_waited_for(path: str, kind: str) -> None:
    way = Way(path, kind)
    way.client = DirtyClient(path)  # not a matter of reconnect_s
    async with owning(path, on_call=full_for(3, wait=True)) as owner:
        assert await in_time(way.call(ONCE, 1, timeout_s=20)) == 1
        assert len(owner.calls) == 4
        with pytest.raises(DirtyTimeoutError) as caught:
            owner.on_call = full_for(1000, wait=True)
            await in_time(way.call(ONCE, 1, timeout_s=0.2))
        assert caught.value.phase == "queued"
        await way.close()


async def test_a_full_queue_that_does_not_ask_to_wait_is_told(way: Way, path: str) -> None:
    async with owning(path, on_call=full_for(1)) as owner:
        with pytest.raises(QueueFull):
            await in_time(way.call(ONCE, 1))
        assert len(owner.calls) == 1


# --- no answer reaches the wrong caller ---


async def test_what_an_owner_said_before_it_left_is_heard_even_by_whoever_finds_it_gone(way: Way, path: str) -> None:
    async with owning(path) as owner:
        for turn in range(30):
            owner.on_call = None
            answered, count = way.call(ONCE, f"answered {turn}"), len(owner.calls)
            await owner.hear(count + 1)
            peer, call = owner.peers[-1], owner.calls[-1]
            peer.reply(call)
            peer.leave()
            owner.on_call = replies
            # written to a connection whose end has come, and whose answer has not been read
            next_one = way.call(ONCE, f"next {turn}")
            assert await in_time(answered) == f"answered {turn}"
            assert await in_time(next_one) == f"next {turn}"
    assert way.client.unknown == 0


async def test_ids_that_two_connections_share_mix_nothing_up(way: Way, path: str) -> None:
    async with owning(path) as owner:
        calls = [way.call(TWICE, number) for number in range(12)]
        heard = await owner.hear(12)
        for call in heard[::2]:
            owner.peers[0].reply(call)
    async with owning(path) as owner:
        heard = await owner.hear(6)
        fresh = [way.call(TWICE, number) for number in range(100, 112)]
        heard = await owner.hear(18)
        assert {call.id for call in heard} == set(range(1, 19)), "the same numbers as on the connection before"
        for call in reversed(heard):
            owner.peers[0].reply(call)
        assert [await in_time(call) for call in calls] == list(range(12))
        assert [await in_time(call) for call in fresh] == list(range(100, 112))


@pytest.mark.parametrize(
    ("action", "ends"), [("echo_twice", ["drain", "cold", "drain", "cold"]), ("echo", ["drain"] * 6)]
)
async def test_answers_find_their_callers_across_many_owners(path: str, action: str, ends: list[str]) -> None:
    """Plain actions too, where every owner ends in order: then nothing is ever unknown."""
    client = DirtyClient(path, reconnect_s=RECONNECT_S)
    is_over = False

    async def ask(number: int) -> int:
        wrong = turn = 0
        while not is_over:
            turn += 1
            sent = [number, turn]
            wrong += await client.execute_async(BASIC, action, sent) != sent
        return wrong

    def ask_in_thread(number: int) -> int:
        wrong = turn = 0
        while not is_over:
            turn += 1
            sent = [number, turn]
            wrong += client.execute(BASIC, action, sent) != sent
        return wrong

    asking = [asyncio.create_task(ask(number)) for number in range(8)]
    asking += [asyncio.create_task(asyncio.to_thread(ask_in_thread, number)) for number in range(8, 12)]
    for how in ends:
        arbiter = Arbiter(DirtyConfig.of(BASIC, socket=path, workers=2))
        await arbiter.listen()
        await arbiter.start()
        arbiter.admit()
        async with asyncio.timeout(30):
            while arbiter.ledger.succeeded < 200:
                await asyncio.sleep(0.005)
        if how == "drain":
            await arbiter.drain(10)
        await arbiter.close()
    async with serving(socket=path):
        is_over = True
        assert [await in_time(one) for one in asking] == [0] * 12
    assert client.unknown == 0
    await client.close_async()
    client.close()
