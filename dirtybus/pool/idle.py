"""Which ready workers have nothing to do, in the order in which they are picked. Keeps no calls."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from dirtybus.pool.model import Phase, Worker, WorkerId

__all__ = ["Idle"]


class Idle:
    """For each app a heap of workers: the newest generation first, and there whoever was ready first.

    A worker that has got something to do stays in the heap until somebody comes across it, so that no step costs more
    than O(log n), however many workers there are.
    """

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[int, int, WorkerId]]] = {}
        self._listed: dict[str, set[WorkerId]] = {}

    def add(self, worker: Worker) -> None:
        """List a ready worker without calls; nothing happens where it is listed."""
        for app in worker.apps:
            listed = self._listed.setdefault(app, set())
            if worker.id not in listed:
                listed.add(worker.id)
                heappush(self._heaps.setdefault(app, []), (-worker.generation, worker.readied, worker.id))

    def first(self, app: str, workers: Mapping[WorkerId, Worker]) -> Worker | None:
        """Return the first worker for the app that has nothing to do; ``workers`` are those that live."""
        heap = self._heaps.get(app)
        while heap:
            worker = workers.get(heap[0][2])
            if worker is not None and worker.phase is Phase.READY and not worker.running:
                return worker
            self._listed[app].discard(heappop(heap)[2])
        return None

    def check(self, workers: Mapping[WorkerId, Worker]) -> None:
        """Raise AssertionError when a worker that has nothing to do is not listed."""
        for worker in workers.values():
            if worker.phase is Phase.READY and not worker.running:
                for app in worker.apps:
                    assert worker.id in self._listed[app], f"idle worker {worker.id} is not listed for {app}"
        for app, heap in self._heaps.items():
            assert sorted(entry[2] for entry in heap) == sorted(self._listed[app]), f"the idle of {app} do not add up"
