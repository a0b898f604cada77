"""The scheduler: facts in, orders out. No process, no socket, no clock, and never a call's payload.

Each fact is booked by a method of its own, which follows up nothing; then ``_settle`` draws every consequence,
in the same sequence after every fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.calls import Calls
from dirtybus.pool.drain import Drain
from dirtybus.pool.endings import Endings
from dirtybus.pool.model import Call, CallId, Lane, Phase, Refusal, Waiting, Worker, WorkerId
from dirtybus.pool.pace import Pace
from dirtybus.pool.portrait import line_of, portrait
from dirtybus.pool.ports import KillReason
from dirtybus.pool.queue import lane_of
from dirtybus.pool.restarts import Jitter
from dirtybus.pool.snapshot import PoolSnapshot
from dirtybus.pool.staffing import Staffing

__all__ = ["Pool"]

#: facts that follow no clock: unless something is due, nothing but calls and slots can come of them
_QUIET = frozenset({ports.Submitted, ports.Finished, ports.Streamed})
#: a new call waits for a worker that is about to be started, not for one whose backoff is longer than this
_PATIENCE_S = 2.0


class Pool:
    """Decide which call runs where, which workers exist, and what becomes of calls whose worker or time is gone.

    An accepted call ends exactly once: by its `Finished`, or by one `Refuse`. A call whose caller was told while it
    ran keeps its slot until the worker has let it go; its `Finished` is then no second end.

    Args:
        config: sizes, limits and spans.
        specs: the apps, each with its number of workers already resolved.
        jitter: gives numbers from 0 to 1 that spread restarts; None for exact delays.
        threads_by_app: how many sync calls an app runs at once in one worker, where it differs from the settings.

    Raises:
        ConfigError: the specs do not fit on ``config.workers`` workers.
    """

    def __init__(
        self,
        config: DirtyConfig,
        specs: Sequence[AppSpec],
        *,
        jitter: Jitter | None = None,
        threads_by_app: Mapping[str, int] | None = None,
    ) -> None:
        self._calls = Calls(config)
        self._pace = Pace()
        self._orders: list[ports.Order] = []
        self._drain = Drain()
        self._staffing = Staffing(
            config,
            specs,
            self._drain,
            jitter=jitter,
            threads_by_app=threads_by_app,
            order=self._order,
            queue=self._calls.queue,
        )
        self._roster = self._staffing.roster
        self._config = config
        self._endings = Endings(config, self._calls, self._order)
        self._hungry: list[Worker] = []
        self._restless: set[Lane] = set()
        self._stepped_at = -math.inf
        self._due_at = -math.inf

    def step(self, fact: ports.Fact, now: float) -> list[ports.Order]:
        """Take one fact and return the orders that follow from it, to be carried out in this sequence.

        Args:
            fact: what happened. One about a worker or call that is gone is ignored.
            now: the moment, in seconds of a clock that never goes back.
        """
        self._stepped_at = now
        self._book(fact, now)
        if self._is_quiet(fact, now):
            self._match()
            if self._staffing.is_restless(now):
                self._settle(now)
        else:
            self._settle(now)
        orders, self._orders = self._orders, []
        return orders

    def wake_at(self) -> float | None:
        """Return when ``step(Ticked(), now)`` next has something to do; None when never.

        A moment in the past, even an infinite one, means at once: so it is before the first step. It may be earlier
        than needed, when the call that it was for has ended since; the step there then corrects it.
        """
        return None if self._due_at == math.inf else self._due_at

    def _next_due_at(self, now: float) -> float:
        if self._drain.is_done:
            return math.inf
        moments = (
            self._calls.next_expiry_at(),
            self._calls.next_start_limit_at(),
            self._calls.next_grace_end_at(),
            self._calls.queue.groups.next_ripe_at(),
            self._staffing.next_due_at(now),
            self._drain.next_at(),
        )
        return min((at for at in moments if at is not None), default=math.inf)

    # --- questions ---

    @property
    def size(self) -> int:
        """How many workers are aimed at."""
        return self._staffing.size

    def instances(self, app: str) -> int:
        """How many workers with the app are aimed at."""
        return sum(1 for seat in self._roster.seats.staying() if app in seat.apps)

    def serves(self, app: str) -> bool:
        """Say whether the app is one of those in force."""
        return self._roster.serves(app)

    def smallest_size(self) -> int:
        """Return the number of workers that the apps' own numbers require as they are placed now."""
        return self._roster.seats.smallest_size

    def why_not(self, size: int, app: str | None = None) -> str | None:
        """Return the sentence that forbids ``size`` workers, or instances of the app; None when it is allowed."""
        return self._staffing.why_not(size, app)

    def is_full_for(self, call: Call, now: float) -> bool:
        """Say whether the call, handed in now, would be refused or make another yield for want of room."""
        return self._why_refuse(call, lane_of(call), now) is Refusal.QUEUE_FULL

    def snapshot(self) -> PoolSnapshot:
        """Return what there is as of the last step."""
        return portrait(self._staffing, self._calls.queue, self._drain, self._stepped_at)

    def __repr__(self) -> str:
        return line_of(self._staffing, len(self._calls.queue))

    def check_invariants(self) -> None:
        """Check the books against each other.

        Raises:
            AssertionError: naming what is broken. It is a defect of the pool.
        """
        self._staffing.check()
        self._calls.check(list(self._roster))
        for lane in self._calls.queue.lanes():
            worker = self._roster.pick(lane)
            assert worker is None, f"worker {worker} idles while calls wait in {lane}"
        assert not self._drain.is_done or not len(self._roster), f"drained, and {len(self._roster)} workers are left"
        assert not self._drain.is_cut or not len(self._calls.queue), "calls wait past the drain deadline"
        for app in self._calls.queue.lengths():
            assert not self._is_hopeless(app), f"calls for {app} wait, and nobody will come for them"

    # --- bookkeeping, one fact each ---

    def _book(self, fact: ports.Fact, now: float) -> None:  # noqa: C901 - it only routes
        match fact:
            case ports.Submitted(call):
                self._admit(call, now)
            case ports.CancelRequested(call_id):
                self._endings.cancel(call_id, now)
            case ports.Streamed(call_id):
                self._note_stream(call_id)
            case ports.Finished(worker_id, call_id):
                self._free(worker_id, call_id)
            case ports.Ready(worker_id):
                if worker := self._staffing.note_ready(worker_id, now):
                    self._hungry.append(worker)
            case ports.BootFailed(worker_id):
                self._staffing.note_boot_failure(worker_id, now)
            case ports.Exited():
                self._bury(fact, now)
            case ports.Unresponsive(worker_id):
                self._note_silence(worker_id)
            case ports.Measured(worker_id, size):
                self._note_memory(worker_id, size)
            case ports.Resized() | ports.Bounded():
                if not self._drain.is_begun:
                    self._staffing.resize(fact)
            case ports.ReloadBegun():
                self._staffing.begin_reload(fact)
            case ports.AdmissionClosed():
                self._drain.is_near = True
                self._endings.release(now)
            case ports.DrainBegun(deadline):
                self._drain.begin(deadline)
                self._restless |= self._calls.queue.groups.hurry()  # nobody comes who could keep them company
                self._endings.release(now)
                self._staffing.begin_drain(now)
            case ports.Ticked():
                pass

    def _admit(self, call: Call, now: float) -> None:
        if call.id in self._calls:
            return
        if now >= self._due_at:
            self._settle(now)  # room that is already due counts, and a worker that is due to be killed has none
        lane = lane_of(call)
        is_crowded = self._is_crowded(call)
        why = self._why_refuse(call, lane, now)
        if why is Refusal.QUEUE_FULL and self._calls.queue.bounds.can_yield_to(call):
            self._endings.make_room(call, self._wait_s(lane))
        elif why is not None:
            retry_after_s = self._wait_s(lane) if why is Refusal.QUEUE_FULL else None
            self._order(ports.Refuse(call.id, why, retry_after_s=retry_after_s))
            return
        waiting = self._calls.admit(call)
        if call.expires_at is not None:
            self._due_at = min(self._due_at, call.expires_at)
        # where others wait in the lane, nobody has room
        is_first = self._calls.queue.is_empty(lane)
        is_late = call.starts_by is not None and now >= call.starts_by
        may_start = is_first and not is_late and now < self._due_at and (call.batch is None or is_crowded)
        worker = self._roster.pick(lane) if may_start else None
        if worker is not None:
            self._dispatch(waiting, worker)
            return
        self._due_at = min(self._due_at, self._calls.enqueue(waiting))
        if is_first:
            self._restless.add(lane)

    def _is_crowded(self, call: Call) -> bool:
        """Say whether there is no room for the call, even when those that wait for company wait no longer."""
        if self._calls.queue.bounds.fits(call):
            return False
        self._restless |= self._calls.queue.groups.hurry(call.app)
        self._match()
        return not self._calls.queue.bounds.fits(call)

    def _why_refuse(self, call: Call, lane: Lane, now: float) -> Refusal | None:
        if self._drain.is_begun:
            return Refusal.DRAINING
        if not self._roster.serves(call.app):
            return Refusal.UNKNOWN_APP
        if self._is_hopeless(call.app):
            return Refusal.APP_BROKEN
        if self._drain.is_near and call.released_by_drain:
            return Refusal.RELEASED
        if not self._roster.has_ready(call.app) and self._roster.seats.vacant_until(call.app) > now + _PATIENCE_S:
            return Refusal.NO_WORKERS
        if not self._calls.queue.bounds.fits(call) and self._roster.pick(lane) is None:
            return Refusal.QUEUE_FULL
        return None

    def _wait_s(self, lane: Lane) -> float:
        """Guess when those that wait now will have been started."""
        app, _ = lane
        return self._pace.wait_s(app, self._calls.queue.bounds.count(app), self._roster.slots_for(lane))

    def _note_stream(self, call_id: CallId) -> None:
        if found := self._calls.find_running(call_id):
            found[1].has_streamed = True

    def _free(self, worker_id: WorkerId, call_id: CallId) -> None:
        worker = self._roster.get(worker_id)
        running = None if worker is None else self._roster.free_slot(worker, call_id)
        if worker is None or running is None:
            return
        shared_by = 1 if running.batch is None else running.batch.size
        self._pace.note(running.call.app, (self._stepped_at - running.started_at) / shared_by)
        if running.call.app not in worker.answered:
            worker.answered.add(running.call.app)
            self._staffing.circuits.heal(running.call.app)
        self._calls.forget(call_id)
        self._staffing.recycling.note_end(worker_id)
        self._due_at = min(self._due_at, self._staffing.note_use(worker, running.call.app, self._stepped_at))
        self._hungry.append(worker)
        if running.batch is not None:
            self._due_at = min(
                self._due_at, self._endings.leave_batch(worker, running, running.batch, self._stepped_at)
            )
            self._restless.add(lane_of(running.call))  # what was learned may have opened a group

    def _bury(self, fact: ports.Exited, now: float) -> None:
        worker = self._staffing.bury(fact, now)
        if worker is None:
            return
        for running in sorted(worker.running.values(), key=lambda run: run.order):
            if self._endings.lose(worker, running, now, was_begun=running.call.id not in fact.unbegun):
                self._restless.add(lane_of(running.call))

    def _note_silence(self, worker_id: WorkerId) -> None:
        worker = self._roster.get(worker_id)
        if worker is not None and worker.running and worker.phase in (Phase.READY, Phase.DRAINING):
            worker.is_suspect = True
            self._staffing.kill(worker, KillReason.HEARTBEAT)

    def _note_memory(self, worker_id: WorkerId, size: int) -> None:
        worker = self._roster.get(worker_id)
        if worker is not None and worker.phase is Phase.READY and self._staffing.recycling.note_memory(worker, size):
            worker.is_suspect = True
            self._staffing.kill(worker, KillReason.MEMORY)

    # --- consequences, the same after every fact ---

    def _settle(self, now: float) -> None:
        if self._staffing.config is not self._config:
            self._reconfigure(self._staffing.config)
        self._endings.expire(now)
        self._cut_drain(now)
        self._kill_stuck(now)
        self._staffing.kill_overdue(now)
        self._restless |= self._calls.queue.groups.ripen(now)
        self._match()
        self._staffing.settle(now)
        self._refuse_hopeless()
        self._report_drained()
        self._due_at = self._next_due_at(now)

    def _reconfigure(self, config: DirtyConfig) -> None:
        self._config = config
        self._endings.reconfigure(config)
        self._calls.queue.bounds.reconfigure(config)

    def _cut_drain(self, now: float) -> None:
        if not self._drain.is_due(now):
            return
        self._drain.is_cut = True
        self._endings.cut_queue()
        for worker in self._roster:
            if worker.running:
                self._endings.cut_worker(worker, now)
                self._staffing.kill(worker, KillReason.DRAIN_DEADLINE)

    def _kill_stuck(self, now: float) -> None:
        for call_id in self._calls.take_stuck(now):
            if found := self._calls.find_running(call_id):
                self._staffing.kill(found[0], KillReason.STUCK)

    def _match(self) -> None:
        """Bring waiting calls and free slots together: for each freed worker, then for each lane with new heads."""
        if not len(self._calls.queue):
            self._hungry.clear()
            self._restless.clear()
            return
        for worker in self._hungry:
            while waiting := self._calls.queue.take(self._roster.lanes_with_room(worker)):
                self._dispatch(waiting, worker)
        self._hungry.clear()
        while lane := self._calls.queue.next_lane(self._restless):
            found = self._roster.pick(lane)
            if found and (waiting := self._calls.queue.take((lane,))):
                self._dispatch(waiting, found)
            else:
                self._restless.discard(lane)
        self._restless.clear()

    def _dispatch(self, waiting: Waiting, worker: Worker) -> None:
        queue, now = self._calls.queue, self._stepped_at
        run = None if waiting.call.batch is None else queue.groups.begin(waiting.call, now)
        name = None if run is None else run.id
        for each in (waiting, *(queue.take_fellows(waiting, run) if run else ())):
            self._roster.take_slot(worker, self._calls.start(each, worker, now, run))
            self._order(ports.Dispatch(worker.id, each.call.id, each.attempt, name))
        if run is not None:
            self._order(ports.RunBatch(worker.id, run.id))

    def _refuse_hopeless(self) -> None:
        """End the calls that wait for a worker that will not come."""
        for app in self._calls.queue.lengths():
            if self._is_hopeless(app):
                self._endings.give_up(app)

    def _report_drained(self) -> None:
        if self._drain.is_begun and not (self._drain.is_done or len(self._roster) or len(self._calls.queue)):
            self._drain.is_done = True
            self._order(ports.ReportDrained())

    # --- small questions ---

    def _order(self, order: ports.Order) -> None:
        self._orders.append(order)

    def _is_quiet(self, fact: ports.Fact, now: float) -> bool:
        """Say whether only calls and free slots can follow from the fact: nothing is due, and nobody leaves."""
        is_calm = now < self._due_at and not self._drain.is_begun and self._staffing.is_calm
        return is_calm and type(fact) in _QUIET

    def _is_hopeless(self, app: str) -> bool:
        """Say whether no worker runs the app or will soon: its circuit is open, or a reload took it away."""
        if self._roster.has_ready(app):
            return False
        is_gone = not self._roster.serves(app) and not self._roster.holds(app)
        return is_gone or self._staffing.circuits.is_open(app)
