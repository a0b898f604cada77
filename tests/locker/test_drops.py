"""What is dropped, and who is told of it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from typing import Any

import pytest
from graia.broadcast.builtin.event import EventExceptionThrown
from graia.broadcast.entities.event import Dispatchable
from loguru import logger

from dirtybus.errors import ConfigError, GateClosed
from dirtybus.events import EventDropped, LifecycleEvent, ShutdownRequested
from dirtybus.gate.drops import Drops
from dirtybus.locker import DEFAULT_EXEMPT, DropReason, ProcessLocker

from .bench import LONG_PATIENCE_S, Bench, Ping, Pong, assert_at_rest, turns, until


class Witness:
    """Notes which events ran and which were told to be dropped, by the callback and on the bus."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.called: list[tuple[int, DropReason]] = []
        self.posted: list[tuple[int, str]] = []

    def on_drop(self, event: Dispatchable, reason: DropReason) -> None:
        assert isinstance(event, Ping)
        self.called.append((event.number, reason))

    def stand_by(self, bench: Bench, listeners: int = 1) -> None:
        for _ in range(listeners):

            @bench.on(Ping)
            async def listener(number: int) -> None:
                self.ran.append(number)

        @bench.on(EventDropped)
        async def dropped(event: Ping, reason: str) -> None:
            self.posted.append((event.number, reason))

    async def agrees(self, *numbers: int, reason: DropReason) -> None:
        """Callback and bus both told of just these, each once, for this reason."""
        await until(lambda: len(self.posted) >= len(self.called))
        assert sorted(self.called) == sorted((n, reason) for n in numbers)
        assert sorted(self.posted) == sorted((n, reason.value) for n in numbers)


async def test_drop_mode_drops_what_comes_before_the_opening_and_runs_what_comes_after() -> None:
    witness = Witness()
    locker = ProcessLocker(10, mode="drop", on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    await bench.run(*(Ping(n) for n in range(3)))
    locker.open()
    await bench.run(Ping(3))
    assert witness.ran == [3]
    await witness.agrees(0, 1, 2, reason=DropReason.NOT_READY)
    assert_at_rest(locker)


@pytest.mark.slow
@pytest.mark.timeout(160)
async def test_drop_mode_counts_ten_thousand_events_and_runs_none() -> None:
    witness = Witness()
    locker = ProcessLocker(10, mode="drop")
    bench = Bench(locker)
    witness.stand_by(bench)
    await bench.run(*(Ping(n) for n in range(10_000)), within_s=LONG_PATIENCE_S)
    assert witness.ran == []
    assert locker.counters["dropped_not_ready"] == locker.counters["events_dropped"] == 10_000
    assert repr(locker) == "<ProcessLocker shut, 0 of 10 running, 0 held, 10000 dropped>"
    await until(lambda: len(witness.posted) == 10_000)


@pytest.mark.parametrize("place", ["prelude", "namespace", "inline", "all"])
async def test_an_event_with_several_listeners_is_told_of_once(place: str) -> None:
    witness = Witness()
    locker = ProcessLocker(1, mode="drop", on_drop=witness.on_drop)
    bench = Bench(locker, place)
    witness.stand_by(bench, listeners=3)
    await bench.run(Ping(1), Ping(2))
    await witness.agrees(1, 2, reason=DropReason.NOT_READY)
    assert witness.ran == []
    assert locker.counters["dropped_not_ready"] == 6
    assert locker.counters["events_dropped"] == 2


async def test_drop_new_keeps_those_held_and_drops_the_newcomer() -> None:
    witness = Witness()
    locker = ProcessLocker(1, max_pending=2, overflow="drop_new", on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    posted = [bench.post(Ping(n)) for n in range(4)]
    await turns(5)
    locker.open()
    await bench.finish(posted)
    assert witness.ran == [0, 1]
    await witness.agrees(2, 3, reason=DropReason.OVERFLOW)
    assert_at_rest(locker)


async def test_drop_old_makes_room_for_the_newcomer() -> None:
    witness = Witness()
    locker = ProcessLocker(1, max_pending=2, overflow="drop_old", on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    posted = [bench.post(Ping(n)) for n in range(4)]
    await turns(5)
    locker.open()
    await bench.finish(posted)
    assert witness.ran == [2, 3]
    await witness.agrees(0, 1, reason=DropReason.OVERFLOW)
    assert_at_rest(locker)


@pytest.mark.parametrize("overflow", ["drop_new", "drop_old"])
async def test_with_no_room_to_hold_any_only_what_runs_at_once_runs(overflow: Any) -> None:
    witness = Witness()
    locker = ProcessLocker(2, opened=True, max_pending=0, overflow=overflow, on_drop=witness.on_drop)
    bench = Bench(locker)
    go = asyncio.Event()

    @bench.on(Ping)
    async def slow(number: int) -> None:
        await go.wait()
        witness.ran.append(number)

    posted = [bench.post(Ping(n)) for n in range(3)]
    await turns(5)
    go.set()
    await bench.finish(posted)
    assert witness.ran == [0, 1]
    assert witness.called == [(2, DropReason.OVERFLOW)]
    assert_at_rest(locker)


async def test_a_refused_event_is_told_so_before_anybody_else() -> None:
    class Asking(Ping):
        error: BaseException | None = None

        def fail(self, error: BaseException) -> None:
            self.error = error

    seen: list[BaseException | None] = []

    def on_drop(event: Dispatchable, reason: DropReason) -> None:
        assert reason is DropReason.REFUSED
        seen.append(getattr(event, "error", None))

    locker = ProcessLocker(1, max_pending=1, on_drop=on_drop)
    bench = Bench(locker)

    @bench.on(Asking)
    async def listener() -> None:
        await asyncio.sleep(0)

    first, second = Asking(1), Asking(2)
    posted = [bench.post(first), bench.post(second)]
    await turns(5)
    assert first.error is None
    assert isinstance(second.error, GateClosed)
    assert str(second.error).startswith("Asking was refused: as many events are held as max_pending allows")
    assert second.error.details == {"event": "Asking", "reason": "refused"}
    assert seen == [second.error]
    locker.open()
    await bench.finish(posted)
    assert_at_rest(locker)


async def test_only_a_refusal_tells_the_event_itself() -> None:
    class Asking(Ping):
        error: BaseException | None = None

        def fail(self, error: BaseException) -> None:
            self.error = error

    locker = ProcessLocker(1, mode="drop")
    bench = Bench(locker)
    bench.on(Asking)(lambda: None)
    event = Asking()
    await bench.run(event)
    assert locker.counters["dropped_not_ready"] == 1
    assert event.error is None


async def test_an_event_held_for_too_long_is_dropped_and_later_ones_are_not() -> None:
    witness = Witness()
    locker = ProcessLocker(1, hold_timeout_s=0.05, on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    await bench.run(Ping(0), Ping(1))
    late = bench.post(Ping(2))
    await turns(5)
    locker.open()
    await bench.finish([late])
    assert witness.ran == [2]
    await witness.agrees(0, 1, reason=DropReason.TIMED_OUT)
    assert_at_rest(locker)


async def test_one_that_is_granted_in_the_turn_in_which_its_time_is_up_runs() -> None:
    witness = Witness()
    locker = ProcessLocker(1, hold_timeout_s=0.02, on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    posted = bench.post(Ping(1))
    await turns(5)
    time.sleep(0.04)  # noqa: ASYNC251 - a loop that is late finds the opening and the timer in one turn
    asyncio.get_running_loop().call_soon(locker.open)
    await bench.finish([posted])
    assert (witness.ran, witness.called) == ([1], [])
    assert_at_rest(locker)


async def test_a_hold_timeout_does_not_reach_what_runs() -> None:
    locker = ProcessLocker(1, hold_timeout_s=0.02)
    bench = Bench(locker)
    ended: list[int] = []

    @bench.on(Ping)
    async def slow(number: int) -> None:
        await asyncio.sleep(0.06)
        ended.append(number)

    posted = bench.post(Ping(1))
    await turns(5)
    locker.open()
    await bench.finish([posted])
    assert ended == [1]
    assert locker.snapshot().dropped == 0
    assert_at_rest(locker)


async def test_a_held_execution_that_is_cancelled_is_told_of_but_not_posted() -> None:
    witness = Witness()
    locker = ProcessLocker(1, on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    with bench.broadcast.event_ctx.use(Ping(1)):
        execution = asyncio.create_task(bench.broadcast.Executor(bench.broadcast.listeners[0]))
    await turns(3)
    execution.cancel()
    await bench.finish([execution])
    await turns(5)
    assert execution.cancelled()
    assert witness.called == [(1, DropReason.CANCELLED)]
    assert witness.posted == []
    assert_at_rest(locker)


@pytest.mark.parametrize("hops", [0, 1])
async def test_an_execution_cancelled_as_it_is_granted_gives_the_slot_to_the_next(hops: int) -> None:
    locker = ProcessLocker(1)
    bench = Bench(locker)
    ran: list[int] = []

    async def body() -> None:
        ran.append(1)

    first = asyncio.create_task(bench.broadcast.Executor(body))
    second = asyncio.create_task(bench.broadcast.Executor(body))
    await turns(3)
    locker.open()
    await turns(hops)
    first.cancel()
    await bench.finish([first, second])
    assert len(ran) == 1 + hops
    assert_at_rest(locker)


async def test_an_execution_cancelled_as_it_is_dropped_is_told_of_once() -> None:
    witness = Witness()
    locker = ProcessLocker(1, on_drop=witness.on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    with bench.broadcast.event_ctx.use(Ping(1)):
        execution = asyncio.create_task(bench.broadcast.Executor(bench.broadcast.listeners[0]))
    await turns(3)
    draining = asyncio.create_task(locker.drain(1, flush=False))
    await turns(1)
    execution.cancel()
    await bench.finish([execution])
    assert await draining
    await witness.agrees(1, reason=DropReason.DRAINING)
    assert_at_rest(locker)


async def test_what_on_drop_raises_is_logged_and_changes_nothing() -> None:
    def on_drop(event: Dispatchable, reason: DropReason) -> None:
        raise LookupError("a callback's mistake")

    witness = Witness()
    locker = ProcessLocker(1, mode="drop", on_drop=on_drop)
    bench = Bench(locker)
    witness.stand_by(bench)
    lines: list[str] = []
    sink = logger.add(lines.append, level="ERROR")
    try:
        await bench.run(Ping(1))
    finally:
        logger.remove(sink)
    await until(lambda: witness.posted == [(1, "not_ready")])
    assert len(lines) == 1
    assert "a callback's mistake" in lines[0]
    assert_at_rest(locker)


async def test_an_event_that_allows_no_weak_reference_is_told_of_for_each_listener() -> None:
    class Slotted:
        __slots__ = ()

    told: Counter[DropReason] = Counter()
    drops = Drops(lambda _event, reason: told.update([reason]))
    bench = Bench(ProcessLocker())
    event: Any = Slotted()
    assert drops.tell(event, bench.broadcast, DropReason.DRAINING)
    assert drops.tell(event, bench.broadcast, DropReason.DRAINING)
    assert told[DropReason.DRAINING] == 2
    await turns(3)


async def test_what_is_known_of_dropped_events_goes_with_them() -> None:
    locker = ProcessLocker(1, mode="drop")
    bench = Bench(locker)
    bench.on(Ping)(lambda: None)
    for _ in range(50):
        await bench.run(Ping())
    await turns(10)
    gc.collect()
    assert locker.counters["events_dropped"] == 50
    assert len(locker._turnstile._drops._told) == 0


async def test_lifecycle_events_and_news_of_errors_pass_a_shut_gate() -> None:
    locker = ProcessLocker(1)
    bench = Bench(locker)
    seen: list[str] = []

    class Started(LifecycleEvent):
        pass

    @bench.on(Started)
    async def started() -> None:
        seen.append("started")
        raise LookupError("to be told of")

    @bench.on(EventExceptionThrown)
    async def thrown() -> None:
        seen.append("thrown")

    await bench.run(Started())
    await until(lambda: seen == ["started", "thrown"])
    assert locker.counters["arrived"] == 0


async def test_exempt_types_pass_with_their_subclasses_and_nothing_else_does() -> None:
    class Special(Ping):
        pass

    witness = Witness()
    locker = ProcessLocker(1, mode="drop", exempt=(*DEFAULT_EXEMPT, Special))
    bench = Bench(locker)
    bench.on(Special)(lambda number: witness.ran.append(number))
    witness.stand_by(bench)
    await bench.run(Special(1), Ping(2))
    assert witness.ran == [1]
    assert locker.counters["dropped_not_ready"] == 1


async def test_only_guards_the_types_named_and_their_subclasses() -> None:
    class Special(Ping):
        pass

    ran: list[str] = []
    locker = ProcessLocker(1, mode="drop", only=(Ping,))
    bench = Bench(locker)
    bench.on(Special)(lambda: ran.append("special"))
    bench.on(Pong)(lambda: ran.append("pong"))
    await bench.run(Special(), Pong())
    assert ran == ["pong"]
    assert locker.counters["dropped_not_ready"] == 1


async def test_news_of_a_drop_is_never_dropped_itself() -> None:
    witness = Witness()
    locker = ProcessLocker(1, mode="drop", exempt=())
    bench = Bench(locker)
    witness.stand_by(bench)
    bench.on(ShutdownRequested)(lambda: None)
    await bench.run(Ping(1), ShutdownRequested())
    await until(lambda: len(witness.posted) == 1)
    assert locker.counters["events_dropped"] == 2


async def test_a_dropped_execution_without_an_event_is_counted_only() -> None:
    called: list[object] = []
    locker = ProcessLocker(1, mode="drop", on_drop=lambda event, reason: called.append(event))
    bench = Bench(locker)

    async def body() -> None:
        called.append("ran")

    await bench.finish([asyncio.create_task(bench.broadcast.Executor(body))])
    assert called == []
    assert locker.counters["dropped_not_ready"] == 1
    assert locker.counters["events_dropped"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "wait"}, "mode must be 'hold' or 'drop', not 'wait'"),
        ({"overflow": "drop"}, "overflow must be 'drop_new', 'drop_old' or 'refuse', not 'drop'"),
        ({"max_pending": -1}, "max_pending must be a whole number >= 0"),
        ({"max_pending": True}, "max_pending must be a whole number >= 0"),
        ({"hold_timeout_s": 0}, "hold_timeout_s must be > 0, or None for no limit, not 0"),
        ({"hold_timeout_s": float("nan")}, "hold_timeout_s must be > 0"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_name_and_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProcessLocker(**settings)
