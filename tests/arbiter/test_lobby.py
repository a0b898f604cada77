"""Waiting for room, without a pool: room is what the test says it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from dirtybus.arbiter.calls import Patience, Request
from dirtybus.arbiter.lobby import Lobby
from dirtybus.errors import DirtyError, DirtyTimeoutError, Draining, Unavailable
from dirtybus.pool.model import ActionKind, Call, CallId
from dirtybus.transport.sinks import Sink, ValueSink

APP = "m:App"


class House:
    """A queue with room for so many bytes, and a lobby before it."""

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.in_it: list[str] = []
        self.cancelled: list[CallId] = []
        self.broken: Exception | None = None
        self.lobby = Lobby(lambda call: call.size > self.room, self.hand_in, self.cancel)

    def hand_in(self, request: Request, sink: Sink) -> CallId:
        if self.broken is not None:
            raise self.broken
        self.room -= request.size
        self.in_it.append(request.action)
        self.lobby.look()  # as the arbiter does after each fact
        return CallId(len(self.in_it))

    def cancel(self, call_id: CallId) -> None:
        self.cancelled.append(call_id)
        self.make_room(1)

    def make_room(self, size: int) -> None:
        self.room += size
        self.lobby.look()

    def wait(
        self, name: str, *, size: int = 1, kind: ActionKind = ActionKind.SYNC, patience: Patience | None = None
    ) -> asyncio.Task[CallId]:
        call = Call(id=CallId(0), app=APP, kind=kind, size=size)
        assert self.lobby.is_needed(call)
        request = Request(app=APP, action=name, body=(b"x" * size,))
        return asyncio.create_task(self.lobby.wait(call, request, ValueSink(lambda _: None), patience))


async def turn_of_the_loop() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def outcome(task: Awaitable[CallId]) -> CallId:
    async with asyncio.timeout(5):
        return await task


async def test_room_goes_to_the_one_who_came_first_and_at_once() -> None:
    house = House()
    first, second = house.wait("first"), house.wait("second")
    await turn_of_the_loop()
    assert len(house.lobby) == 2
    house.make_room(1)
    assert house.in_it == ["first"], "it was handed in before its task ran again"
    house.make_room(1)
    assert [await outcome(first), await outcome(second)] == [1, 2]
    assert len(house.lobby) == 0


async def test_a_newcomer_waits_behind_those_who_wait_even_when_it_would_fit() -> None:
    house = House(room=1)
    big = house.wait("big", size=2)
    await turn_of_the_loop()
    small = house.wait("small", size=1)
    await turn_of_the_loop()
    house.lobby.look()
    assert house.in_it == []
    house.make_room(2)
    await asyncio.gather(big, small)
    assert house.in_it == ["big", "small"]


async def test_those_behind_one_who_leaves_may_have_room() -> None:
    house = House(room=1)
    big = house.wait("big", size=2)
    await turn_of_the_loop()
    small = house.wait("small", size=1)
    await turn_of_the_loop()
    big.cancel()
    await outcome(small)
    assert house.in_it == ["small"]
    assert house.cancelled == []


async def test_one_who_is_cancelled_in_the_moment_of_its_admission_gives_the_room_back() -> None:
    house = House()
    first, second = house.wait("first"), house.wait("second")
    await turn_of_the_loop()
    house.make_room(1)
    first.cancel()
    assert await outcome(second) == 2
    assert first.cancelled()
    assert house.cancelled == [1]


async def test_room_that_appears_while_a_cancel_is_under_way_is_not_given_to_the_one_who_leaves() -> None:
    house = House()
    first, second = house.wait("first"), house.wait("second")
    await turn_of_the_loop()
    first.cancel()
    house.make_room(1)
    assert await outcome(second) == 1
    assert house.in_it == ["second"]


async def test_lanes_are_served_in_the_order_in_which_their_first_came() -> None:
    house = House()
    tasks = [house.wait("a"), house.wait("b", kind=ActionKind.ASYNC), house.wait("c")]
    await turn_of_the_loop()
    house.make_room(3)
    await asyncio.gather(*tasks)
    assert house.in_it == ["a", "b", "c"]


async def test_whoever_runs_out_of_patience_is_told_why_and_lets_the_next_one_in() -> None:
    house = House(room=1)
    ends_at = asyncio.get_running_loop().time()
    tired = house.wait("tired", size=2, patience=Patience(ends_at, DirtyTimeoutError("too long")))
    await asyncio.sleep(0)
    next_one = house.wait("next", size=1)
    with pytest.raises(DirtyTimeoutError, match="too long"):
        await outcome(tired)
    await outcome(next_one)
    assert house.in_it == ["next"]


async def test_all_are_sent_away_at_the_end() -> None:
    house = House()
    tasks = [house.wait(str(number)) for number in range(3)]
    await turn_of_the_loop()
    house.lobby.dismiss(Draining("going"))
    assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [Draining] * 3
    house.make_room(3)
    assert house.in_it == []
    assert len(house.lobby) == 0


@pytest.mark.parametrize("error", [Unavailable("no"), DirtyError("broken"), RuntimeError("a defect")])
async def test_what_is_said_when_the_call_is_handed_in_is_the_answer(error: Exception) -> None:
    house = House()
    task = house.wait("one")
    await turn_of_the_loop()
    house.broken = error
    house.make_room(1)
    with pytest.raises(type(error)):
        await outcome(task)
