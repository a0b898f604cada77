"""Drive the pool with any sequence of facts, as a hostile world would; `worlds.World` holds what must be true."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.model import ActionKind, Call, CallId, OnCancel, WorkerId
from tests.pool.worlds import World

SPECS = (
    [AppSpec("m:A")],
    [AppSpec("m:A"), AppSpec("m:B", 1)],
    [AppSpec("m:A", 2), AppSpec("m:B", 1)],
    [AppSpec("m:B", 1), AppSpec("m:A"), AppSpec("m:C", 2), AppSpec("m:D")],
    [AppSpec("m:A", 1)],
)
SPANS = st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0])
#: A drain ends most of what can happen: it comes when much has happened.
STEPS_BEFORE_DRAIN = 30


@st.composite
def configs(draw: st.DrawFn) -> DirtyConfig:
    return DirtyConfig(
        workers=draw(st.integers(2, 3)),
        threads=draw(st.integers(1, 2)),
        async_concurrency=draw(st.integers(1, 3)),
        max_queued=draw(st.sampled_from([1, 2, 6])),
        max_queued_payload_bytes=draw(st.sampled_from([1024, 4096])),
        queue_full=draw(st.sampled_from(["refuse", "wait", "drop_oldest", "drop_oldest"])),
        max_starting=draw(st.sampled_from([None, None, 1, 2])),
        boot_timeout_s=draw(st.sampled_from([None, 0, 5.0])),
        graceful_timeout_s=draw(st.sampled_from([1.0, 4.0])),
        cancel_grace_s=draw(st.sampled_from([0.0, 2.0])),
        crash_limit=draw(st.integers(1, 3)),
        restart_delay_s=1.0,
        restart_delay_max_s=3.0,
        healthy_after_s=4.0,
        max_restarts=None,
    )


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call whose deadline and limit of waiting are still spans."""
    return Call(
        id=CallId(0),
        app=draw(st.sampled_from(["m:A", "m:A", "m:A", "m:B", "m:B", "m:C", "m:D", "m:Ghost"])),
        expires_at=draw(st.none() | st.none() | st.sampled_from([0.0, 1.0, 3.0, 10.0])),
        kind=draw(st.sampled_from([ActionKind.SYNC, ActionKind.SYNC, ActionKind.ASYNC])),
        idempotent=draw(st.booleans()),
        on_cancel=draw(st.sampled_from(OnCancel)),
        released_by_drain=draw(st.booleans()),
        starts_by=draw(st.none() | st.none() | st.sampled_from([0.0, 0.5, 2.0])),
        priority=draw(st.sampled_from([0, 0, 0, -1, 5])),
        caller=draw(st.sampled_from([0, 0, 1, 2])),
        size=draw(st.sampled_from([0, 0, 400, 1000, 9999])),
    )


class HostileWorld(RuleBasedStateMachine):
    world: World
    steps = 0

    @initialize(config=configs(), specs=st.sampled_from(SPECS), threads=st.sampled_from([{}, {"m:A": 3}, {"m:B": 1}]))
    def start(self, config: DirtyConfig, specs: list[AppSpec], threads: dict[str, int]) -> None:
        self.world = World(config, specs, threads)
        self.boot_all()

    @invariant()
    def count_steps(self) -> None:
        self.steps += 1

    def busy(self) -> list[tuple[WorkerId, CallId]]:
        return sorted((worker.id, call_id) for worker in self.world.workers.values() for call_id in worker.running)

    def one_worker(self, data: st.DataObject) -> WorkerId:
        return data.draw(st.sampled_from(sorted(self.world.ever)))

    def one_call(self, data: st.DataObject) -> CallId:
        return data.draw(st.sampled_from(sorted(self.world.calls)))

    def some_worker(self) -> bool:
        return bool(self.world.workers)

    def some_running(self) -> bool:
        return any(worker.running for worker in self.world.workers.values())

    def some_call(self) -> bool:
        return bool(self.world.calls)

    @rule(batch=st.lists(calls(), min_size=2, max_size=6))
    def submit(self, batch: list[Call]) -> None:
        for call in batch:
            number = CallId(len(self.world.calls) + 1)
            expires_at = None if call.expires_at is None else self.world.now + call.expires_at
            starts_by = None if call.starts_by is None else self.world.now + call.starts_by
            # an app that is not served is worth a question now and then, not a call in three
            app = call.app if call.app in (*self.world.specs, "m:Ghost") else "m:A"
            given = {"id": number, "app": app, "expires_at": expires_at, "starts_by": starts_by}
            self.world.submit(msgspec.structs.replace(call, **given))

    @rule(batch=st.lists(calls(), min_size=1, max_size=3))
    def submit_few(self, batch: list[Call]) -> None:
        self.submit(batch)

    @precondition(some_call)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        seen = self.world.calls[self.one_call(data)]
        if seen.is_queued or seen.worker is not None:
            self.world.feed(ports.Submitted(seen.call))

    @rule()
    def boot_all(self) -> None:
        for worker_id in sorted(self.world.workers):
            self.world.ready(worker_id)

    @precondition(some_worker)
    @rule(data=st.data())
    def boot_one(self, data: st.DataObject) -> None:
        self.world.ready(self.one_worker(data))

    @precondition(some_worker)
    @rule(data=st.data())
    def fail_boot(self, data: st.DataObject) -> None:
        self.world.break_boot(self.one_worker(data))

    @precondition(some_running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.world.finish(*data.draw(st.sampled_from(self.busy())))

    @precondition(some_running)
    @rule(data=st.data())
    def finish_some(self, data: st.DataObject) -> None:
        for worker_id, call_id in data.draw(st.lists(st.sampled_from(self.busy()), unique=True)):
            self.world.finish(worker_id, call_id)

    @precondition(some_running)
    @rule(data=st.data())
    def die_busy(self, data: st.DataObject) -> None:
        self.world.exit(data.draw(st.sampled_from(self.busy()))[0])

    @precondition(some_running)
    @rule(data=st.data())
    def die_before_the_calls_began(self, data: st.DataObject) -> None:
        worker_id = data.draw(st.sampled_from(self.busy()))[0]
        held = [call_id for one, call_id in self.busy() if one == worker_id]
        fresh = [call_id for call_id in held if not self.world.calls[call_id].has_streamed]
        self.world.exit(worker_id, frozenset(data.draw(st.lists(st.sampled_from(fresh)))) if fresh else frozenset())

    @precondition(some_running)
    @rule(data=st.data())
    def cancel_running(self, data: st.DataObject) -> None:
        self.world.feed(ports.CancelRequested(data.draw(st.sampled_from(self.busy()))[1]))

    @precondition(lambda self: self.some_worker() and self.some_call())
    @rule(data=st.data())
    def finish_wrongly(self, data: st.DataObject) -> None:
        self.world.finish(self.one_worker(data), self.one_call(data))

    @precondition(some_call)
    @rule(data=st.data())
    def stream(self, data: st.DataObject) -> None:
        self.world.stream(self.one_call(data))

    @precondition(some_call)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.world.feed(ports.CancelRequested(self.one_call(data)))

    @precondition(some_worker)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.world.exit(data.draw(st.sampled_from(sorted(self.world.workers))))

    @precondition(some_worker)
    @rule(data=st.data())
    def fall_silent(self, data: st.DataObject) -> None:
        self.world.fall_silent(self.one_worker(data))

    @precondition(some_worker)
    @rule(data=st.data())
    def die_again(self, data: st.DataObject) -> None:
        gone = sorted(self.world.ever - self.world.workers.keys())
        if gone:
            self.world.exit(data.draw(st.sampled_from(gone)))

    @rule()
    def leave_as_told(self) -> None:
        self.world.kill_and_leave()

    @rule(seconds=SPANS)
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule()
    def wait_for_the_timer(self) -> None:
        wake_at = self.world.pool.wake_at()
        if wake_at is not None:
            self.world.now = wake_at
            self.world.feed(ports.Ticked())

    @rule(by=st.sampled_from([-2, -1, 1]))
    def resize(self, by: int) -> None:
        self.world.resize(min(5, self.world.size + by))

    @precondition(lambda self: self.steps > STEPS_BEFORE_DRAIN)
    @rule()
    def close_admission(self) -> None:
        self.world.close_admission()

    @precondition(lambda self: self.steps > STEPS_BEFORE_DRAIN)
    @rule(within_s=st.sampled_from([0.0, 1.0, 3.0, 8.0, 20.0]))
    def drain(self, within_s: float) -> None:
        self.world.drain(within_s)

    def teardown(self) -> None:
        if not hasattr(self, "world") or not self.world.is_sound:
            return  # it has failed already; a second failure would hide the first
        if not self.world.is_drained and len(self.world.calls) % 2:
            self.world.calm_down()
            if not self.world.is_drained:
                self.world.assert_whole()
        self.world.assert_drains()


TestHostileWorld = HostileWorld.TestCase
TestHostileWorld.settings = settings(stateful_step_count=60)
