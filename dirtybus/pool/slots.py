"""How many calls a worker may run at once. Knows nothing of phases or of who waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dirtybus.config import DirtyConfig
from dirtybus.pool.model import ActionKind, CallId, Lane, Running, Worker
from dirtybus.pool.placement import Apps
from dirtybus.pool.queue import lane_of

__all__ = ["Slots"]


class Slots:
    """The limits, and the bookkeeping of what is taken in each worker.

    A worker runs at most ``threads`` sync calls. An app with a number of its own runs at most that many of them in
    one worker, and the worker has as many threads as the hungriest of its apps asks for. Async calls have their
    own, larger number.
    """

    def __init__(self, config: DirtyConfig, threads_by_app: Mapping[str, int]) -> None:
        self._threads = config.threads
        self._threads_by_app = dict(threads_by_app)
        self._async_calls = config.async_concurrency

    def threads_for(self, apps: Apps) -> int:
        """Return how many threads a worker with these apps has."""
        return max((self._threads_by_app.get(app, self._threads) for app in apps), default=self._threads)

    def threads_of(self, apps: Apps, app: str) -> int:
        """Return how many sync calls of the app run at once in a worker with these apps."""
        return min(self.threads_for(apps), self._threads_by_app.get(app, self._threads))

    def capacity(self, worker: Worker, lane: Lane) -> int:
        """Return how many calls of the lane the worker runs at once when it has nothing else to do."""
        app, kind = lane
        if kind is ActionKind.ASYNC:
            return self._async_calls
        return min(worker.threads, self._threads_by_app.get(app, self._threads))

    def has_room(self, worker: Worker, lane: Lane) -> bool:
        """Say whether one more call of the lane fits."""
        app, kind = lane
        if kind is ActionKind.ASYNC:
            return worker.busy[kind] < self._async_calls
        own_limit = self._threads_by_app.get(app, self._threads)
        return worker.busy[kind] < worker.threads and worker.taken.get(lane, 0) < own_limit

    def lanes_with_room(self, worker: Worker) -> Iterator[Lane]:
        """Yield the lanes whose next call would fit."""
        for kind, limit in ((ActionKind.SYNC, worker.threads), (ActionKind.ASYNC, self._async_calls)):
            if worker.busy[kind] >= limit:
                continue
            for app in worker.apps:
                if self.has_room(worker, lane := (app, kind)):
                    yield lane

    def take(self, worker: Worker, running: Running) -> None:
        """Book the call in the worker. All calls of a batch take one slot."""
        lane = lane_of(running.call)
        worker.running[running.call.id] = running
        if running.batch is not None:
            running.batch.members.add(running.call.id)
            if len(running.batch.members) > 1:
                return
        worker.taken[lane] = worker.taken.get(lane, 0) + 1
        worker.busy[running.call.kind] += 1

    def free(self, worker: Worker, call_id: CallId) -> Running | None:
        """Take the call out of the worker's books and return it; None when it was not there."""
        running = worker.running.pop(call_id, None)
        if running is not None and running.batch is not None:
            running.batch.members.discard(call_id)
        if running is not None and (running.batch is None or not running.batch.members):
            worker.taken[lane_of(running.call)] -= 1
            worker.busy[running.call.kind] -= 1
        return running

    def check(self, worker: Worker) -> None:
        """Raise AssertionError when the worker's books or limits do not hold."""
        for kind in ActionKind:
            count = sum(1 for running in _heads(worker) if running.call.kind is kind)
            assert worker.busy[kind] == count, (
                f"worker {worker.id} runs {count} {kind.value} calls, {worker.busy[kind]} booked"
            )
        assert worker.busy[ActionKind.SYNC] <= worker.threads, f"worker {worker.id} runs more sync calls than threads"
        assert worker.busy[ActionKind.ASYNC] <= self._async_calls, f"worker {worker.id} runs too many async calls"
        for lane, taken in worker.taken.items():
            count = sum(1 for running in _heads(worker) if lane_of(running.call) == lane)
            assert taken == count, f"worker {worker.id} runs {count} calls of {lane[0]}, {taken} booked"
            assert lane[1] is ActionKind.ASYNC or taken <= self._threads_by_app.get(lane[0], self._threads), (
                f"worker {worker.id} runs more sync calls of {lane[0]} than it may"
            )


def _heads(worker: Worker) -> list[Running]:
    """Return the calls that take a slot each: of a batch, one."""
    heads = {id(running.batch or running): running for running in worker.running.values()}
    return list(heads.values())
