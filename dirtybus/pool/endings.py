"""How a call ends without a result: cancelled, out of time, or with its worker gone. Each caller is told once.

Never learns which worker would be free for a call; what comes back to the queue is matched elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dirtybus.config import DirtyConfig
from dirtybus.pool.batching import is_unwanted
from dirtybus.pool.calls import Calls
from dirtybus.pool.model import BatchRun, Call, CallId, OnCancel, Phase, Refusal, Running, Waiting, Worker
from dirtybus.pool.ports import Cause, Interrupt, Order, Refuse

__all__ = ["MOST_BOUNCES", "Endings"]

#: how many workers may be gone before they begin a call; Passenger's attempts to connect
MOST_BOUNCES = 10


#: the last words on the calls of a batch come one after the other: after the first, the worker has so long for the rest
_LAST_WORDS_S = 1.0


class Endings:
    """Books the ends in ``calls`` and hands the orders that go with them to ``order``."""

    def __init__(self, config: DirtyConfig, calls: Calls, order: Callable[[Order], None]) -> None:
        self._calls = calls
        self._order = order
        self.reconfigure(config)

    def reconfigure(self, config: DirtyConfig) -> None:
        """Go by other limits from now on."""
        self._cancel_grace_s = config.cancel_grace_s
        self._crash_limit = config.crash_limit

    def cancel(self, call_id: CallId, now: float) -> None:
        """End a call that waits or runs; nothing when it is unknown or its caller was told already."""
        self._give_up(call_id, Refusal.CANCELLED, now)

    def release(self, now: float) -> None:
        """End every call that a drain is not to wait for, whether it waits or runs."""
        for call_id in self._calls.released_by_drain():
            self._give_up(call_id, Refusal.RELEASED, now)

    def expire(self, now: float) -> None:
        """End every call whose deadline has come, whether it waits or runs, and those that waited too long."""
        for call_id in self._calls.take_expired(now):
            if waiting := self._calls.take_queued(call_id):
                self._refuse_waiting(waiting, Refusal.EXPIRED)
            elif found := self._calls.find_running(call_id):
                self._abandon(*found, Refusal.TIMED_OUT, now)
        for call_id in self._calls.take_unstarted(now):
            if waiting := self._calls.take_queued(call_id):
                self._refuse_waiting(waiting, Refusal.EXPIRED, cause=Cause.QUEUE_TIMEOUT)

    def make_room(self, call: Call, retry_after_s: float) -> None:
        """Refuse calls that wait, until ``call`` fits. The bounds have said that it will."""
        bounds = self._calls.queue.bounds
        while not bounds.fits(call) and (first := bounds.first_to_yield(call.app)) is not None:
            if waiting := self._calls.take_queued(first):
                self._refuse_waiting(waiting, Refusal.QUEUE_FULL, cause=Cause.DROPPED, retry_after_s=retry_after_s)

    def lose(self, worker: Worker, running: Running, now: float, *, was_begun: bool) -> bool:
        """Settle a call whose worker is gone. Return True when it waits again for another run.

        One that the worker had not begun goes to another whatever it does, and the death is not held against it; but
        not for ever: where so many workers in a row are gone before they begin, the caller had better know.
        """
        call = running.call
        if not was_begun and running.abandoned_at is None:
            if running.bounces + 1 >= MOST_BOUNCES:
                self._calls.forget(call.id)
                self._order(Refuse(call.id, Refusal.NO_WORKERS, attempts=running.attempt - 1))
                return False
            self._calls.return_to_queue(running, running.crashes, has_run=False)
            return True
        # a worker that was killed for one stuck call says nothing about the others in it; a silent one about all
        is_suspect = worker.phase is not Phase.KILLED or worker.is_suspect
        crashes = running.crashes + is_suspect
        if running.abandoned_at is not None:
            self._calls.forget(call.id)
        elif call.idempotent and is_suspect and crashes >= self._crash_limit:
            self._end_running(worker, running, Refusal.POISONED)
        elif not call.idempotent or running.has_streamed or _is_expired(call, now):
            self._end_running(worker, running, Refusal.WORKER_LOST)
        else:
            self._calls.return_to_queue(running, crashes)
            return True
        return False

    def leave_batch(self, worker: Worker, running: Running, batch: BatchRun, now: float) -> float:
        """Follow up the end of one call of a batch: nobody may wait for the rest of it, or there is none.

        Returns until when the rest must have ended; infinity for no such moment.
        """
        call = running.call
        batch.is_telling &= running.abandoned_at is None and not running.has_streamed
        if not batch.members:
            self._calls.queue.groups.learn(batch, call, now)
        elif call.on_cancel is OnCancel.KILL and is_unwanted(batch, worker):
            ends_at = now + max(self._cancel_grace_s, _LAST_WORDS_S)
            self._calls.limit(min(batch.members), ends_at)
            return ends_at
        return math.inf

    def cut_queue(self) -> None:
        """End every call that waits: the drain deadline passed."""
        for waiting in self._calls.take_all_queued():
            self._refuse_waiting(waiting, Refusal.DRAINING)

    def give_up(self, app: str) -> None:
        """End every call for the app that waits: no worker will come for it."""
        for waiting in [each for each in self._calls.queue if each.call.app == app]:
            if self._calls.take_queued(waiting.call.id) is not None:
                self._order(Refuse(waiting.call.id, Refusal.APP_BROKEN, attempts=waiting.attempt - 1))

    def cut_worker(self, worker: Worker, now: float) -> None:
        """End every call that runs in the worker, which is about to be killed: the drain deadline passed."""
        for running in worker.running.values():
            if running.abandoned_at is None:
                self._calls.abandon(running, now, None)
                self._order(Refuse(running.call.id, Refusal.DRAINING, worker.id, running.attempt))

    def _give_up(self, call_id: CallId, why: Refusal, now: float) -> None:
        if waiting := self._calls.take_queued(call_id):
            self._refuse_waiting(waiting, why)
        elif (found := self._calls.find_running(call_id)) and found[1].abandoned_at is None:
            self._abandon(*found, why, now)

    def _abandon(self, worker: Worker, running: Running, why: Refusal, now: float) -> None:
        """Tell the caller and the worker that nobody waits; the slot stays taken until the worker is done with it.

        As long as others of the call's batch are waited for, their work may go on.
        """
        batch = running.batch
        is_alone = batch is None or is_unwanted(batch, worker, beside=running.call.id)
        is_bounded = is_alone and running.call.on_cancel is OnCancel.KILL
        self._calls.abandon(running, now, now + self._cancel_grace_s if is_bounded else None)
        self._order(Refuse(running.call.id, why, worker.id, running.attempt))
        if worker.phase is not Phase.KILLED:
            self._order(Interrupt(worker.id, running.call.id))

    def _end_running(self, worker: Worker, running: Running, why: Refusal) -> None:
        self._calls.forget(running.call.id)
        self._order(Refuse(running.call.id, why, worker.id, running.attempt))

    def _refuse_waiting(
        self, waiting: Waiting, why: Refusal, *, cause: Cause | None = None, retry_after_s: float | None = None
    ) -> None:
        attempts = waiting.attempt - 1
        self._order(Refuse(waiting.call.id, why, attempts=attempts, cause=cause, retry_after_s=retry_after_s))


def _is_expired(call: Call, now: float) -> bool:
    return call.expires_at is not None and now >= call.expires_at
