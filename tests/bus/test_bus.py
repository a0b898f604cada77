from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from graia.broadcast import Broadcast
from loguru import logger

from dirtybus import stash
from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.bus import DirtyBus
from dirtybus.errors import CallCancelled, ConfigError, DirtyAppError, DirtyError, DirtyTimeoutError, GateClosed
from dirtybus.events import (
    ChunkArrived,
    EventDropped,
    ExecutionFailed,
    ExecutionRequested,
    ExecutionSucceeded,
    InferenceRequested,
    ScaleRequested,
    WorkerReady,
)
from dirtybus.stash import AsyncStash
from dirtybus.stash.current import is_bound
from tests.arbiter.serving import BASIC, MARKING, until
from tests.bus.running import running_bus


class Greeting(InferenceRequested):
    """A user's event: class attributes, and an __init__ that does not call ours."""

    app = BASIC
    action = "echo"

    def __init__(self, name: str) -> None:
        self.args = (name,)


class LoudGreeting(Greeting):
    pass


async def test_without_a_listener_the_event_is_run() -> None:
    async with running_bus() as (bus, _):
        assert await bus.ask(InferenceRequested(BASIC, "echo", (1,), {"x": 2})) == (1, {"x": 2})
        assert await bus.ask(ExecutionRequested(BASIC, "numbers", (3,))) == [0, 1, 2]
        assert await bus.call(BASIC, "echo", "no event") == "no event"


async def test_errors_come_out_of_ask() -> None:
    async with running_bus() as (bus, _):
        with pytest.raises(DirtyAppError, match="ValueError: bad"):
            await bus.ask(InferenceRequested(BASIC, "boom"))
        with pytest.raises(DirtyError, match="no app"):
            await bus.ask(InferenceRequested("a:B", "boom"))


async def test_subclasses_of_the_events_just_work() -> None:
    async with running_bus() as (bus, broadcast):
        heard: list[str] = []

        @broadcast.receiver(InferenceRequested)
        async def base(event: InferenceRequested) -> None:
            heard.append(f"base {type(event).__name__}")

        @broadcast.receiver(Greeting)
        async def exact(event: Greeting) -> None:
            heard.append(f"exact {type(event).__name__}")

        assert await bus.ask(Greeting("ann")) == "ann"
        assert await bus.ask(LoudGreeting("bob")) == "bob"
        assert sorted(heard) == ["base Greeting", "base LoudGreeting", "exact Greeting", "exact LoudGreeting"]


async def test_a_listener_gets_what_it_asks_for_and_may_answer() -> None:
    async with running_bus() as (bus, broadcast):
        got: dict[str, Any] = {}

        @broadcast.receiver(InferenceRequested)
        async def answer(
            event: InferenceRequested,
            payload: Any,
            app: str,
            action: str,
            owner: DirtyBus,
            client: Arbiter,
            stash: AsyncStash,
            bus: Any,
        ) -> None:
            got.update(payload=payload, app=app, action=action, owner=owner, client=client, bus=bus)
            await stash.put("basic", "seen", payload)
            assert event.answer(("by hand", payload))

        assert await bus.ask(InferenceRequested(BASIC, "boom", ("p",))) == ("by hand", "p")
        assert got == {
            "payload": "p",
            "app": BASIC,
            "action": "boom",
            "owner": bus,
            "client": bus.arbiter,
            "bus": bus,
        }
        assert await bus.stash.get("basic", "seen") == "p"


async def test_an_event_is_settled_once() -> None:
    async with running_bus() as (bus, broadcast):
        outcomes: list[bool] = []

        @broadcast.receiver(InferenceRequested, priority=1)
        async def first(event: InferenceRequested) -> None:
            outcomes.append(event.answer(1))

        @broadcast.receiver(InferenceRequested, priority=2)
        async def second(event: InferenceRequested) -> None:
            outcomes.extend([event.answer(2), event.fail(ValueError()), event.cancel()])

        assert await bus.ask(InferenceRequested(BASIC, "echo")) == 1
        await until(lambda: len(outcomes) == 4)
        assert outcomes == [True, False, False, False]
        assert bus.arbiter.ledger.submitted == 0


async def test_a_listener_that_only_looks_does_not_keep_the_event_from_being_run() -> None:
    async with running_bus() as (bus, broadcast):

        @broadcast.receiver(InferenceRequested)
        def look(event: InferenceRequested) -> None:
            assert not event.is_settled

        assert await bus.ask(InferenceRequested(BASIC, "echo", (5,))) == 5


async def test_a_deferred_event_waits_for_its_listener() -> None:
    async with running_bus() as (bus, broadcast):
        kept: list[InferenceRequested] = []

        @broadcast.receiver(InferenceRequested)
        async def keep(event: InferenceRequested) -> None:
            event.defer()
            kept.append(event)

        asking = asyncio.create_task(bus.ask(InferenceRequested(BASIC, "echo", (5,))))
        await until(lambda: kept)
        assert not asking.done()
        kept[0].answer("later")
        assert await asking == "later"


async def test_a_listener_error_fails_the_event_and_is_logged_once_with_the_call_id(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with running_bus() as (bus, broadcast):
        records: list[Any] = []
        sink = logger.add(lambda message: records.append(message.record), level="ERROR", format="{message}")

        @broadcast.receiver(InferenceRequested)
        async def fail(event: InferenceRequested) -> None:
            raise LookupError("the listener's own {braces}")

        event = InferenceRequested(BASIC, "echo")
        with pytest.raises(LookupError, match="own"):
            await bus.ask(event)
        logger.remove(sink)
        assert len(records) == 1
        assert "the listener's own {braces}" in records[0]["message"]
        assert records[0]["extra"]["call"] == event.id
        assert bus.arbiter.ledger.submitted == 0, "running it all the same might do the work twice"
    # loguru's own sink wrote it once; graia's traceback.print_exc must not have
    assert capfd.readouterr().err.count("LookupError: the listener's own") <= 2


async def test_success_failure_and_chunks_can_be_listened_to() -> None:
    async with running_bus() as (bus, broadcast):
        told: list[Any] = []

        @broadcast.receiver(ExecutionSucceeded)
        async def succeeded(event: ExecutionSucceeded) -> None:
            told.append(("ok", event.value))

        @broadcast.receiver(ExecutionFailed)
        async def failed(event: ExecutionFailed, error: BaseException) -> None:
            told.append(("failed", type(error)))

        @broadcast.receiver(ChunkArrived)
        async def chunk(event: ChunkArrived) -> None:
            told.append(("chunk", event.index, event.chunk))

        await bus.ask(InferenceRequested(BASIC, "numbers", (2,)))
        with pytest.raises(DirtyAppError):
            await bus.ask(InferenceRequested(BASIC, "boom"))
        assert [n async for n in bus.stream(InferenceRequested(BASIC, "numbers", (1,)))] == [0]
        await until(lambda: len(told) == 6)
        assert told[:2] == [("chunk", 0, 0), ("chunk", 1, 1)]
        assert sorted(told[2:], key=str) == [("chunk", 0, 0), ("failed", DirtyAppError), ("ok", [0, 1]), ("ok", [])]


async def test_streams_through_the_bus() -> None:
    async with running_bus() as (bus, broadcast):
        assert [n async for n in bus.stream(InferenceRequested(BASIC, "anumbers", (50,)))] == list(range(50))
        assert [n async for n in bus.stream(InferenceRequested(BASIC, "echo", ("one",)))] == ["one"]
        seen = []
        with pytest.raises(DirtyAppError, match="failed at 2"):
            async for n in bus.stream(InferenceRequested(BASIC, "numbers", (9, 2))):
                seen.append(n)
        assert seen == [0, 1]

        @broadcast.receiver(Greeting)
        async def speak(event: Greeting) -> None:
            for letter in event.payload:
                await event.emit(letter)
            event.end()

        assert [n async for n in bus.stream(Greeting("ann"))] == ["a", "n", "n"]
        assert await bus.ask(Greeting("bo")) == ["b", "o"]


async def test_leaving_a_stream_or_an_ask_ends_the_work() -> None:
    async with running_bus() as (bus, _):
        async for number in bus.stream(InferenceRequested(BASIC, "anumbers", (10_000, 0.001))):
            if number == 3:
                break
        asking = asyncio.create_task(bus.ask(InferenceRequested(BASIC, "asleep", (60,))))
        await until(lambda: bus.arbiter.ledger.submitted == 2)
        asking.cancel()
        await asyncio.wait([asking])
        event = bus.post(InferenceRequested(BASIC, "asleep", (60,)))
        await until(lambda: bus.arbiter.ledger.submitted == 3)
        assert event.cancel()
        with pytest.raises(CallCancelled):
            await event.outcome()
        await until(lambda: bus.arbiter.ledger.open == 0)
        assert bus.arbiter.ledger.cancelled == 3


async def test_the_deadline_counts_from_the_event() -> None:
    async with running_bus() as (bus, _):
        with pytest.raises(DirtyTimeoutError):
            await bus.ask(InferenceRequested(BASIC, "asleep", (60,), timeout_s=0.2))
        blocker = bus.post(InferenceRequested(BASIC, "sleep", (0.6,)))
        late = [bus.post(InferenceRequested(BASIC, "count_up", timeout_s=0.1)) for _ in range(20)]
        for event in late:
            with pytest.raises(DirtyTimeoutError):
                await event.outcome()
        await blocker.outcome()
        assert await bus.call(BASIC, "count_up") == 1, "expired work never starts"


async def test_events_can_be_posted_from_any_thread() -> None:
    async with running_bus() as (bus, _):
        posted: list[InferenceRequested] = []
        thread = threading.Thread(target=lambda: posted.append(bus.post(InferenceRequested(BASIC, "echo", (1,)))))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert await posted[0].outcome() == 1


async def test_scaling_is_driven_by_an_event() -> None:
    async with running_bus() as (bus, broadcast):
        ready: list[int] = []

        @broadcast.receiver(WorkerReady)
        async def note(event: WorkerReady) -> None:
            ready.append(event.worker)

        bus.post(ScaleRequested(3))
        await until(lambda: len(ready) == 2)
        assert bus.arbiter.status()["target"] == 3


async def test_a_dropped_event_is_told_to_who_asked() -> None:
    dropped: list[EventDropped] = []
    events: list[InferenceRequested] = []

    def before(bus: DirtyBus, broadcast: Broadcast) -> None:
        @broadcast.receiver(EventDropped)
        async def note(event: EventDropped) -> None:
            dropped.append(event)

        events.extend(bus.post(InferenceRequested(BASIC, "echo", (n,))) for n in range(5))

    async with running_bus(before=before, gate={"max_pending": 2, "overflow": "drop_new"}):
        outcomes = await asyncio.gather(*(event.outcome() for event in events), return_exceptions=True)
    assert outcomes[:2] == [0, 1]
    assert all(isinstance(error, GateClosed) for error in outcomes[2:])
    assert len(dropped) == 3


async def test_a_bus_is_installed_once_and_says_so_before() -> None:
    bus = DirtyBus(apps=[BASIC])
    with pytest.raises(DirtyError, match="install"):
        bus.post(InferenceRequested(BASIC, "echo"))
    with pytest.raises(TypeError, match="not both"):
        DirtyBus(bus.config, workers=2)


async def test_the_stash_functions_reach_the_bus_while_it_lives_and_not_after() -> None:
    async with running_bus() as (bus, _):
        stash.put("basic", "from the owner", 1)
        assert await bus.stash.get("basic", "from the owner") == 1
        assert await bus.call(BASIC, "put", "from a worker", (1,)) == (1,)
        assert stash.get("basic", "from a worker") == (1,)
    assert not is_bound()


async def test_a_field_that_is_none_is_injected_as_none() -> None:
    async with running_bus() as (bus, broadcast):
        got: list[Any] = []

        @broadcast.receiver(InferenceRequested)
        async def look(event: InferenceRequested, payload: Any, timeout_s: float) -> None:
            got.append((payload, timeout_s))

        assert await bus.ask(InferenceRequested(BASIC, "echo", (None,))) is None
        assert got == [(None, None)]


class Urgent(InferenceRequested):
    app = MARKING
    action = "mark"
    priority = 9


async def test_events_say_which_of_them_goes_first(tmp_path: Path) -> None:
    async with running_bus(BASIC, MARKING) as (bus, _):
        mark = tmp_path / "blocking"
        blocking = bus.post(InferenceRequested(BASIC, "until_cancelled", (str(mark),)))
        await until(mark.with_name("blocking.began").exists)
        events = [
            bus.post(InferenceRequested(MARKING, "mark", ("low",), priority=-1)),
            bus.post(InferenceRequested(MARKING, "mark", ("plain",))),
            bus.post(Urgent(args=("urgent",))),
        ]
        read = asyncio.create_task(_read(bus, InferenceRequested(MARKING, "mark", ("streamed",), priority=8)))
        await until(lambda: bus.arbiter.status()["queued"].get(MARKING) == 4)
        blocking.cancel()
        await asyncio.gather(*(event.outcome() for event in events), read)
        assert await bus.call(MARKING, "marks") == ["urgent", "streamed", "plain", "low"]


async def _read(bus: DirtyBus, event: InferenceRequested) -> list[Any]:
    return [chunk async for chunk in bus.stream(event)]


async def test_an_elastic_bus_grows_when_asked_and_says_what_cannot_be() -> None:
    lines: list[str] = []
    handler = logger.add(lines.append, level="ERROR")
    async with running_bus(pool_size="0-2", scale_up_after="20ms") as (bus, _):
        assert await bus.ask(InferenceRequested(BASIC, "echo", (1,))) == 1
        bus.post(ScaleRequested(pool_size=(0, 3), why="a test"))
        bus.post(ScaleRequested(3))
        await until(lambda: len(bus.arbiter.status()["workers"]) == 3)
        bus.post(ScaleRequested(1, app=BASIC))
        await until(lambda: any("stays as it is" in line and "placement = 'dynamic'" in line for line in lines))
    logger.remove(handler)


def test_a_request_to_scale_says_one_thing() -> None:
    with pytest.raises(ConfigError, match="either a number of workers or a pool_size"):
        ScaleRequested()
    with pytest.raises(ConfigError, match="either"):
        ScaleRequested(1, pool_size=(1, 2))
