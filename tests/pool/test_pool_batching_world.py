"""Calls that run together and calls that do not, under any order of facts, judged by what orders alone tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dirtybus.batch import Batch
from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import Pool, ports
from dirtybus.pool.model import Call, CallId, Phase, WorkerId

APP = "m:A"
BATCHES = (
    Batch(max_size=3, max_wait=1.0),
    Batch(max_size=4, max_wait=0.5, cost="bytes", max_cost=1000),
    Batch(max_size=8, max_wait=0.0),
    Batch(max_size=8, max_wait=0.5, target=2.0),
    Batch(max_size=1, max_wait=5.0),
)
NOT_OVER = object()


@dataclass
class Seen:
    call: Call
    ripe_at: float
    end: object = NOT_OVER
    worker: WorkerId | None = None
    batch: CallId | None = None
    attempts: int = 0
    is_abandoned: bool = False
    was_sent: bool = False
    crashes: int = 0

    @property
    def waits(self) -> bool:
        return self.end is NOT_OVER and self.worker is None


@dataclass
class Place:
    ready: bool = False
    gone: bool = False
    batches: dict[CallId, set[CallId]] = field(default_factory=dict)
    singles: set[CallId] = field(default_factory=set)

    @property
    def slots(self) -> int:
        return len(self.batches) + len(self.singles)


class BatchingWorld(RuleBasedStateMachine):
    @initialize(workers=st.integers(1, 2), max_queued=st.sampled_from([2, 5, 100]), policy=st.booleans())
    def start(self, workers: int, max_queued: int, policy: bool) -> None:
        self.now = 10.0
        self.config = DirtyConfig(
            workers=workers,
            max_queued=max_queued,
            queue_full="drop_oldest" if policy else "refuse",
            cancel_grace_s=1.0,
            crash_limit=2,
            max_restarts=None,
            restart_delay_s=0.5,
        )
        self.pool = Pool(self.config, [AppSpec(APP)])
        self.calls: dict[CallId, Seen] = {}
        self.places: dict[WorkerId, Place] = {}
        self.is_draining = False
        self.feed(ports.Ticked())
        self.boot()

    # --- facts ---

    @rule(data=st.data(), count=st.integers(1, 6))
    def submit(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            number = CallId(len(self.calls) + 1)
            batch = data.draw(st.sampled_from((None, *BATCHES, *BATCHES)))
            ripe_at = None if batch is None else self.now + batch.max_wait
            deadline = data.draw(st.sampled_from([None, None, 0.3, 3.0]))
            call = Call(
                id=number,
                app=APP,
                batch=batch,
                action="" if batch is None else str(BATCHES.index(batch)),
                ripe_at=ripe_at,
                expires_at=None if deadline is None else self.now + deadline,
                idempotent=data.draw(st.booleans()),
                priority=data.draw(st.sampled_from([0, 0, 3])),
                caller=data.draw(st.sampled_from([0, 1, 2])),
                size=data.draw(st.sampled_from([100, 400, 2000])),
            )
            self.calls[number] = Seen(call, ripe_at or 0.0)
            self.feed(ports.Submitted(call))

    @rule()
    def boot(self) -> None:
        for worker, place in list(self.places.items()):
            if not place.ready and not place.gone:
                place.ready = True
                self.feed(ports.Ready(worker))

    def running(self) -> list[CallId]:
        return [call_id for call_id, seen in self.calls.items() if seen.worker is not None]

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def finish_one(self, data: st.DataObject) -> None:
        self.finish(data.draw(st.sampled_from(self.running())))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), took=st.sampled_from([0.0, 0.1, 1.0]))
    def finish_batch(self, data: st.DataObject, took: float) -> None:
        seen = self.calls[data.draw(st.sampled_from(self.running()))]
        self.wait(took)
        for call_id in [each for each in self.running() if self.calls[each].batch == seen.batch]:
            if seen.batch is not None and self.calls[call_id].worker is not None:
                self.finish(call_id)

    def finish(self, call_id: CallId) -> None:
        seen = self.calls[call_id]
        assert seen.worker is not None
        worker = seen.worker
        self.leave(seen)
        if seen.end is NOT_OVER:
            seen.end = "answered"
        self.feed(ports.Finished(worker, call_id))

    def leave(self, seen: Seen) -> None:
        assert seen.worker is not None
        place = self.places[seen.worker]
        if seen.batch is None:
            place.singles.discard(seen.call.id)
        else:
            place.batches[seen.batch].discard(seen.call.id)
            if not place.batches[seen.batch]:
                del place.batches[seen.batch]
        seen.worker = seen.batch = None

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.feed(ports.CancelRequested(data.draw(st.sampled_from(sorted(self.calls)))))

    @precondition(lambda self: any(not place.gone for place in self.places.values()))
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.bury(data.draw(st.sampled_from([w for w, place in self.places.items() if not place.gone])), data)

    def bury(self, worker: WorkerId, data: st.DataObject | None) -> None:
        held = [call_id for call_id in self.running() if self.calls[call_id].worker == worker]
        unbegun = frozenset(data.draw(st.lists(st.sampled_from(held))) if held and data else ())
        self.places[worker].gone = True
        for call_id in held:
            seen = self.calls[call_id]
            self.leave(seen)
            seen.crashes += call_id not in unbegun
        self.feed(ports.Exited(worker, unbegun))

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(500):
            at = self.pool.wake_at()
            if at is None or at > end:
                break
            self.now = max(self.now, at)
            self.feed(ports.Ticked())
        else:
            raise AssertionError("the timer spins")
        self.now = end

    @precondition(lambda self: len(self.calls) > 40)
    @rule()
    def drain(self) -> None:
        self.is_draining = True
        self.feed(ports.DrainBegun(self.now + 3.0))

    # --- orders ---

    def feed(self, fact: ports.Fact) -> None:
        orders = self.pool.step(fact, self.now)
        announced: dict[CallId, list[CallId]] = {}
        for order in orders:
            match order:
                case ports.Spawn(worker):
                    self.places[worker] = Place()
                case ports.Dispatch(worker, call_id, attempt, batch):
                    self.see_dispatch(worker, self.calls[call_id], attempt, batch)
                    if batch is not None:
                        announced.setdefault(batch, []).append(call_id)
                case ports.RunBatch(worker, batch):
                    self.see_batch(worker, announced.pop(batch))
                case ports.Refuse(call_id):
                    seen = self.calls[call_id]
                    assert seen.end is NOT_OVER, f"{seen} ended twice"
                    seen.end, seen.is_abandoned = order.why, seen.worker is not None
        assert not announced, f"batches {announced} were sent and never begun"
        self.pool.check_invariants()

    def see_dispatch(self, worker: WorkerId, seen: Seen, attempt: int, batch: CallId | None) -> None:
        assert seen.waits, f"{seen} went out and did not wait"
        assert (batch is None) == (seen.call.batch is None)
        assert seen.call.expires_at is None or self.now < seen.call.expires_at
        assert self.places[worker].ready
        seen.worker, seen.batch, seen.was_sent = worker, batch, True
        seen.attempts = attempt
        place = self.places[worker]
        if batch is None:
            place.singles.add(seen.call.id)
        else:
            place.batches.setdefault(batch, set()).add(seen.call.id)
        assert place.slots <= 1, "more than one thing at once in one thread"

    def see_batch(self, worker: WorkerId, members: list[CallId]) -> None:
        assert set(members) == self.places[worker].batches[members[0]]
        calls = [self.calls[each].call for each in members]
        batch = calls[0].batch
        assert batch is not None
        assert len({call.action for call in calls}) == 1, "calls of two actions went together"
        assert len(calls) <= batch.max_size
        assert len(calls) == 1 or sum(call.size for call in calls) <= (batch.max_cost or 1e9)
        assert len(calls) == 1 or not any(self.calls[each].crashes for each in members), "a suspect in company"
        by_line: dict[tuple[int, int], list[CallId]] = {}
        for call in calls:
            by_line.setdefault((call.priority, call.caller), []).append(call.id)
        assert all(line == sorted(line) for line in by_line.values()), "calls of one caller lost their order"

    # --- what must hold ---

    @invariant()
    def nobody_waits_longer_than_promised(self) -> None:
        if not hasattr(self, "pool"):
            return
        ready = {view.id for view in self.pool.snapshot().workers if view.phase is Phase.READY}
        has_room = any(not self.places[worker].slots for worker in ready)
        wake_at = self.pool.wake_at()
        groups: dict[str, int] = {}
        for seen in self.calls.values():
            if not seen.waits:
                continue
            groups[seen.call.action] = groups.get(seen.call.action, 0) + 1
            if seen.call.batch is None or seen.was_sent or seen.ripe_at <= self.now:
                assert not has_room, f"{seen} waits while a worker is free"
            elif has_room:
                assert wake_at is not None, f"{seen} waits for company, and no timer is set"
                assert wake_at <= seen.ripe_at
        for action, count in groups.items():
            full = action != "" and BATCHES[int(action)].max_size <= count
            assert not (full and has_room), "a full batch waits while a worker is free"

    @invariant()
    def the_pool_knows_the_same(self) -> None:
        if not hasattr(self, "pool"):
            return
        waiting = sum(1 for seen in self.calls.values() if seen.waits)
        assert sum(self.pool.snapshot().queued.values()) == waiting
        running = {view.id: set(view.running) for view in self.pool.snapshot().workers}
        assert running == {
            worker: {*place.singles, *(each for batch in place.batches.values() for each in batch)}
            for worker, place in self.places.items()
            if not place.gone
        }

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for _ in range(200):
            self.boot()
            for call_id in self.running():
                if self.calls[call_id].worker is not None:
                    self.finish(call_id)
            for view in self.pool.snapshot().workers:
                if view.phase in (Phase.DRAINING, Phase.KILLED):
                    self.bury(view.id, None)
            self.wait(1.0)
            if all(seen.end is not NOT_OVER for seen in self.calls.values()):
                break
        assert all(seen.end is not NOT_OVER for seen in self.calls.values()), "a call got no end in a kind world"


TestBatchingWorld = BatchingWorld.TestCase
TestBatchingWorld.settings = settings(stateful_step_count=40)
