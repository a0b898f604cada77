"""Every call that is not over: where it waits or runs, and the moments at which somebody loses patience with it.

Books what it is told; who is refused, interrupted or killed is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from dirtybus.config import DirtyConfig
from dirtybus.pool.batching import is_unwanted
from dirtybus.pool.model import BatchRun, Call, CallId, OnCancel, Phase, Running, Waiting, Worker
from dirtybus.pool.queue import CallQueue
from dirtybus.pool.ranking import Ranking

__all__ = ["Calls"]


class Calls:
    """The queue, the index of running calls, and the alarms: deadlines, limits of waiting, ends of graces.

    A call whose caller was told stays in the index until its slot is free.
    """

    def __init__(self, config: DirtyConfig) -> None:
        self.queue = CallQueue(config)
        self._workers: dict[CallId, Worker] = {}
        self._expiries: Ranking[CallId] = Ranking()
        self._starts: Ranking[CallId] = Ranking()
        self._graces: Ranking[CallId] = Ranking()

    def __contains__(self, call_id: CallId) -> bool:
        return call_id in self.queue or call_id in self._workers

    def admit(self, call: Call) -> Waiting:
        """Book a new call, which neither waits nor runs yet."""
        if call.expires_at is not None:
            self._expiries.put(call.id, call.expires_at)
        return self.queue.number(call)

    def enqueue(self, waiting: Waiting) -> float:
        """Book that an admitted call waits for its first run; return when its wait will matter, infinity for never."""
        call = waiting.call
        self.queue.put(waiting)
        due_at = math.inf if call.ripe_at is None else call.ripe_at
        if call.starts_by is None:
            return due_at
        self._starts.put(call.id, call.starts_by)
        return min(due_at, call.starts_by)

    def start(self, waiting: Waiting, worker: Worker, now: float, batch: BatchRun | None = None) -> Running:
        """Book that a call taken from the queue, or one that need not wait, runs in the worker from ``now`` on."""
        self._workers[waiting.call.id] = worker
        self._starts.drop(waiting.call.id)
        return Running(
            waiting.call,
            waiting.attempt,
            order=waiting.order,
            crashes=waiting.crashes,
            # one that need not wait took no turn from anybody
            turn=waiting.order if waiting.turn is None else waiting.turn,
            bounces=waiting.bounces,
            started_at=now,
            batch=batch,
        )

    def return_to_queue(self, running: Running, crashes: int, *, has_run: bool = True) -> None:
        """Book that the run came to nothing and the call waits for the next one, with the deadline it has."""
        del self._workers[running.call.id]
        bounces = running.bounces + (not has_run)
        self.queue.put(Waiting(running.call, running.order, running.attempt + has_run, crashes, running.turn, bounces))

    def find_running(self, call_id: CallId) -> tuple[Worker, Running] | None:
        """Return where the call runs, with its books there; None when it does not run."""
        worker = self._workers.get(call_id)
        return None if worker is None else (worker, worker.running[call_id])

    def take_queued(self, call_id: CallId) -> Waiting | None:
        """Take the call out of the queue for good; None when it does not wait."""
        waiting = self.queue.remove(call_id)
        if waiting is not None:
            self._expiries.drop(call_id)
            self._starts.drop(call_id)
        return waiting

    def take_all_queued(self) -> list[Waiting]:
        """Take all calls out of the queue for good, the oldest first."""
        taken = self.queue.take_all()
        for waiting in taken:
            self._expiries.drop(waiting.call.id)
            self._starts.drop(waiting.call.id)
        return taken

    def released_by_drain(self) -> list[CallId]:
        """Return the calls that a drain is not to wait for, those in the queue first."""
        waiting = [each.call for each in self.queue]
        running = [worker.running[call_id].call for call_id, worker in self._workers.items()]
        return [call.id for call in (*waiting, *running) if call.released_by_drain]

    def abandon(self, running: Running, now: float, grace_ends_at: float | None) -> None:
        """Book that nobody waits for the running call any more; ``grace_ends_at`` is when its slot must be free."""
        running.abandoned_at = now
        self._expiries.drop(running.call.id)
        if grace_ends_at is not None:
            self._graces.put(running.call.id, grace_ends_at)

    def limit(self, call_id: CallId, grace_ends_at: float) -> None:
        """Book until when the slot of an abandoned call must be free, as nobody in its batch is waited for now."""
        self._graces.put(call_id, grace_ends_at)

    def forget(self, call_id: CallId) -> None:
        """Book that the call runs nowhere any more and is over."""
        self._workers.pop(call_id, None)
        self._expiries.drop(call_id)
        self._graces.drop(call_id)

    def take_expired(self, now: float) -> list[CallId]:
        """Take out the deadlines that have come, and return their calls."""
        return self._expiries.take_until(now)

    def take_unstarted(self, now: float) -> list[CallId]:
        """Take out the moments by which calls should have been started, as far as they have come; and their calls."""
        return self._starts.take_until(now)

    def take_stuck(self, now: float) -> list[CallId]:
        """Take out the graces that have ended, and return their calls, which go on."""
        return self._graces.take_until(now)

    def next_expiry_at(self) -> float | None:
        return self._expiries.first_rank()

    def next_start_limit_at(self) -> float | None:
        return self._starts.first_rank()

    def next_grace_end_at(self) -> float | None:
        return self._graces.first_rank()

    def check(self, workers: Collection[Worker]) -> None:
        """Raise AssertionError naming what does not add up."""
        self.queue.check()
        self._expiries.check()
        self._starts.check()
        self._graces.check()
        running = {call_id: worker for worker in workers for call_id in worker.running}
        assert running == self._workers, "the index of running calls and the workers' own books differ"
        waiting = {w.call.id: w.call for w in self.queue}
        assert not waiting.keys() & running.keys(), f"calls {waiting.keys() & running.keys()} wait and run at once"
        wanted = [w.running[call_id] for call_id, w in running.items() if w.running[call_id].abandoned_at is None]
        timed = {call.id for call in (*waiting.values(), *(r.call for r in wanted)) if call.expires_at is not None}
        assert timed == set(self._expiries), f"the deadlines of calls {timed ^ set(self._expiries)} are not watched"
        unstarted = {w.call.id for w in self.queue if w.is_fresh and w.call.starts_by is not None}
        assert unstarted == set(self._starts), f"the waits of calls {unstarted ^ set(self._starts)} have no limit"
        for call_id, worker in running.items():
            batch = worker.running[call_id].batch
            if _may_be_stuck(worker, worker.running[call_id]):
                alarmed = {call_id} if batch is None else batch.members
                assert alarmed & set(self._graces), f"call {call_id} may keep its slot for ever"


def _may_be_stuck(worker: Worker, running: Running) -> bool:
    is_over = running.abandoned_at is not None and running.call.on_cancel is OnCancel.KILL
    if running.batch is not None:  # it has no alarm as long as anybody waits for one of its calls
        is_over = is_over and is_unwanted(running.batch, worker)
    return is_over and worker.phase is not Phase.KILLED
