"""The rules that each single order of the pool must keep, judged by `Books` before the order is booked in them."""

from __future__ import annotations

import math

from dirtybus.pool import ports
from dirtybus.pool.endings import MOST_BOUNCES
from dirtybus.pool.model import OnCancel, Refusal, WorkerId
from dirtybus.pool.ports import Cause, KillReason
from tests.pool.books import Books, SeenCall, SeenWorker


class Rules(Books):
    """Takes the orders of one step, in their sequence."""

    def apply(self, order: ports.Order) -> None:
        assert not self.is_drained or isinstance(order, ports.Refuse), f"{order} after the drain ended"
        match order:
            case ports.Spawn(worker_id, apps):
                self.see_spawn(worker_id, apps)
            case ports.Dispatch(worker_id, call_id, attempt):
                self.see_dispatch(self.workers[worker_id], self.calls[call_id], attempt)
            case ports.Refuse(call_id):
                self.see_refusal(self.calls[call_id], order)
            case ports.Interrupt(worker_id, call_id):
                assert call_id in self.workers[worker_id].running
                assert not self.workers[worker_id].is_killed
                assert self.calls[call_id].abandoned_at == self.now
            case ports.Retire(worker_id):
                self.see_retire(self.workers[worker_id])
            case ports.Kill(worker_id, why):
                self.see_kill(self.workers[worker_id], why)
            case ports.ReportDrained():
                assert self.deadline < math.inf, "nobody asked for a drain"
                assert not self.workers, "drained, and workers are left"
                assert all(seen.ended for seen in self.calls.values()), "drained, and calls are left"
                self.is_drained = True

    def see_spawn(self, worker_id: WorkerId, apps: tuple[str, ...]) -> None:
        assert apps, "a worker without apps"
        assert worker_id not in self.ever, "a worker id came twice"
        # with several spawns in one step the snapshot is ahead of the books, and has only more in it
        seat = next(view.seat for view in self.pool.snapshot().workers if view.id == worker_id)
        assert all(worker.seat != seat for worker in self.workers.values()), "two workers on one seat"
        self.see_place(seat, apps)
        self.ever.add(worker_id)
        self.workers[worker_id] = SeenWorker(worker_id, seat, apps, self.now)
        self.see_size()
        booting = sum(1 for worker in self.workers.values() if worker.is_booting)
        assert booting <= (self.config.max_starting or math.inf), f"{booting} workers boot at once"
        if self.deadline < math.inf:
            waiting = {seen.call.app for seen in self.calls.values() if seen.is_queued or self.is_orphan(seen)}
            assert waiting & set(apps), "spawned for nobody"

    def see_place(self, seat: int, apps: tuple[str, ...]) -> None:
        assert self.now >= self.not_before.get(seat, -math.inf), "a restart came before its delay was over"
        assert apps == self.vacated.get(seat, apps), "a worker was replaced by one with other apps"

    def see_size(self) -> None:
        for app, spec in self.specs.items():
            holders = sum(1 for worker in self.workers.values() if app in worker.apps)
            assert spec.workers is None or holders <= spec.workers, f"{holders} workers hold {app}"
        staying = [worker for worker in self.workers.values() if not self.is_leaving(worker)]
        assert len(staying) <= self.size, "more workers than asked for"

    def see_dispatch(self, worker: SeenWorker, seen: SeenCall, attempt: int) -> None:
        assert worker.ready_at is not None, "a call went to a worker that is not ready"
        must_go = worker.is_told or worker.is_killed
        assert not must_go, "a call went to a worker that must go"
        assert seen.call.app in worker.apps, "a call went to a worker without its app"
        if seen.worker is not None:  # back from a crash in this very step
            assert self.dead is not None
            assert seen.worker == self.dead.id
            assert self.may_rerun(seen)
            seen.worker = None
        assert seen.is_queued, "a call went out that did not wait"
        assert seen.call.expires_at is None or self.now < seen.call.expires_at, "an expired call started"
        assert seen.was_sent or seen.call.starts_by is None or self.now < seen.call.starts_by, "it waited too long"
        assert attempt == seen.attempt + 1
        assert self.has_room(worker, seen), "a worker got more calls than it has slots"
        self.assert_first_in_line(worker, seen)
        self.assert_least_busy(worker, seen)
        seen.attempt, seen.worker, seen.was_sent = attempt, worker.id, True
        worker.running.append(seen.call.id)

    def assert_first_in_line(self, worker: SeenWorker, seen: SeenCall) -> None:
        is_for_the_freed = isinstance(self.fact, ports.Finished | ports.Ready) and self.fact.worker == worker.id
        is_older = True
        for other in self.calls.values():
            if other is seen:
                is_older = False
            elif other.is_queued and not self.is_new(other):
                is_rival = other.lane == seen.lane
                if is_for_the_freed and other.call.app in worker.apps:
                    is_rival = is_rival or self.has_room(worker, other)
                if is_rival:
                    self.assert_comes_first(seen, other, is_older=is_older)

    def assert_comes_first(self, seen: SeenCall, other: SeenCall, *, is_older: bool) -> None:
        """Between callers they take turns, which the tests of the queue count; the rest is known here."""
        one, two = seen.call, other.call
        assert one.priority >= two.priority, f"{one} overtook {two}, which has a higher priority"
        is_of_one_line = (one.priority, one.caller) == (two.priority, two.caller)
        assert not (is_older and is_of_one_line), f"{one} overtook {two} of the same caller"

    def assert_least_busy(self, worker: SeenWorker, seen: SeenCall) -> None:
        for other in self.able(seen):
            assert len(other.running) >= len(worker.running), f"worker {other.id} was less busy than {worker.id}"

    def see_refusal(self, seen: SeenCall, order: ports.Refuse) -> None:
        why = order.why
        assert seen.ended is None, f"{seen.call} ended twice: {seen.ended}, then {why.value}"
        is_late = seen.call.expires_at is not None and self.now >= seen.call.expires_at
        is_new = isinstance(self.fact, ports.Submitted) and self.fact.call.id == seen.call.id
        assert order.worker == (None if self.was_sent_back(seen) else seen.worker)
        assert order.attempts == seen.attempt
        assert (order.retry_after_s is not None) == (why is Refusal.QUEUE_FULL)
        match why:
            case Refusal.EXPIRED if order.cause is Cause.QUEUE_TIMEOUT:
                assert seen.is_fresh
                assert seen.call.starts_by is not None
                assert self.now >= seen.call.starts_by
            case Refusal.EXPIRED:
                assert is_late
                assert seen.worker is None or seen.call.id in self.unbegun
            case Refusal.TIMED_OUT:
                assert is_late
                assert seen.worker is not None
            case Refusal.CANCELLED:
                assert self.fact == ports.CancelRequested(seen.call.id)
            case Refusal.DRAINING:
                assert (is_new and self.deadline < math.inf) or self.now >= self.deadline
            case Refusal.RELEASED:
                assert self.is_drain_near
                assert is_new or isinstance(self.fact, ports.DrainBegun | ports.AdmissionClosed)
                assert seen.call.released_by_drain
            case Refusal.UNKNOWN_APP:
                assert is_new
                assert seen.call.app not in self.specs
            case Refusal.QUEUE_FULL if order.cause is Cause.DROPPED:
                self.see_drop(seen)
            case Refusal.QUEUE_FULL:
                others = self.fresh(seen.call.app, beside=seen)
                assert is_new
                assert not self.fits(seen, others), "refused although there was room"
                assert not any(self.able(seen)), "refused although a worker could take it"
                staying = [other for other in others if other.call.priority > seen.call.priority]
                assert self.config.queue_full != "drop_oldest" or not self.fits(seen, staying), "nobody yielded"
            case Refusal.WORKER_LOST | Refusal.POISONED:
                assert self.dead is not None
                assert seen.worker == self.dead.id
                assert not self.may_rerun(seen)
                is_poison = seen.call.idempotent and self.dead.is_suspect and seen.crashes >= self.config.crash_limit
                assert is_poison == (why is Refusal.POISONED)
            case Refusal.NO_WORKERS if self.was_sent_back(seen):
                assert seen.bounces == MOST_BOUNCES
            case Refusal.NO_WORKERS:
                assert is_new
                assert self.is_forsaken(seen.call.app)
        seen.ended = why.value
        if seen.worker in self.workers:
            seen.abandoned_at = self.now
        else:
            seen.worker = None

    def see_drop(self, seen: SeenCall) -> None:
        assert self.config.queue_full == "drop_oldest"
        assert isinstance(self.fact, ports.Submitted)
        newcomer = self.calls[self.fact.call.id]
        others = self.fresh(newcomer.call.app, beside=newcomer)
        assert seen in others, "a call was dropped that did not wait, or was not in the way"
        assert not self.fits(newcomer, others), "a call was dropped although there was room"
        assert not any(self.able(newcomer)), "a call was dropped although a worker could take the new one"
        assert seen.call.priority <= newcomer.call.priority, "a call was dropped for one of a lower priority"
        assert seen is min(others, key=lambda other: other.call.priority), "the wrong call was dropped"

    def see_retire(self, worker: SeenWorker) -> None:
        assert not worker.running, "a worker with calls was told to leave"
        goes_anyway = worker.is_told or worker.is_killed or worker.is_broken
        assert not goes_anyway, "told to leave for nothing"
        worker.is_told = True
        worker.must_leave_by = min(self.now + self.config.graceful_timeout_s, self.last_moment())
        if self.deadline < math.inf:
            waiting = {seen.call.app for seen in self.calls.values() if seen.is_queued}
            # where each holds one app, it may have to make room for another whose calls came first
            others = waiting - set(worker.apps) if self.config.placement == "dynamic" else ()
            # and one that was let go before the drain has given its seat to whoever comes next
            is_free = worker.is_let_go or others or not waiting & set(worker.apps)
            assert is_free, "told to leave while it has work"
            return
        for app in worker.apps:
            is_fixed = self.specs[app].workers is not None and self.config.placement == "static"
            assert not is_fixed, f"a holder of the limited {app} was let go"

    def see_kill(self, worker: SeenWorker, why: KillReason) -> None:
        assert not worker.is_killed, "killed twice"
        graces = [self.calls[c] for c in worker.running if self.calls[c].abandoned_at is not None]
        match why:
            case KillReason.BOOT_TIMEOUT:
                assert worker.is_booting
                assert self.config.boot_timeout_s
                assert self.now >= worker.born_at + self.config.boot_timeout_s
            case KillReason.RETIRE_TIMEOUT:
                assert worker.is_told or worker.is_broken
                assert self.now >= worker.must_leave_by
            case KillReason.STUCK:
                assert any(
                    seen.call.on_cancel is OnCancel.KILL
                    and self.now >= (seen.abandoned_at or 0.0) + self.config.cancel_grace_s
                    for seen in graces
                )
            case KillReason.HEARTBEAT:
                assert self.fact == ports.Unresponsive(worker.id)
                assert worker.running
                worker.is_silent = True
            case KillReason.DRAIN_DEADLINE:
                assert self.now >= self.deadline
                assert worker.running
        worker.is_killed = True
