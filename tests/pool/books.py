"""The books of a second opinion on the pool: what can be known from facts and orders alone. Judges nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import Pool, ports
from dirtybus.pool.endings import MOST_BOUNCES
from dirtybus.pool.model import ActionKind, Call, CallId, Phase, WorkerId

#: What the pool gives a worker without calls once the drain deadline has come.
LAST_WORD_S = 1.0


@dataclass
class SeenCall:
    call: Call
    attempt: int = 0  # runs so far
    crashes: int = 0
    was_sent: bool = False
    worker: WorkerId | None = None
    ended: str | None = None
    abandoned_at: float | None = None
    has_streamed: bool = False
    bounces: int = 0

    @property
    def lane(self) -> tuple[str, ActionKind]:
        return self.call.app, self.call.kind

    @property
    def is_queued(self) -> bool:
        return self.ended is None and self.worker is None

    @property
    def is_fresh(self) -> bool:
        """Whether it waits and was never sent to a worker: such calls count towards the bounds."""
        return self.is_queued and not self.was_sent


@dataclass
class SeenWorker:
    id: WorkerId
    seat: int
    apps: tuple[str, ...]
    born_at: float
    ready_at: float | None = None
    is_broken: bool = False
    is_let_go: bool = False
    is_told: bool = False
    is_killed: bool = False
    is_silent: bool = False
    must_leave_by: float = math.inf
    running: list[CallId] = field(default_factory=list)

    @property
    def is_suspect(self) -> bool:
        """Say whether its end is held against the calls in it."""
        return self.is_silent or not self.is_killed

    @property
    def is_booting(self) -> bool:
        return self.ready_at is None and not (self.is_broken or self.is_told or self.is_killed)


class Books:
    """Calls, workers and seats as a bystander sees them. Phases that no order tells are asked of the pool."""

    def __init__(self, config: DirtyConfig, specs: list[AppSpec], threads_by_app: dict[str, int] | None = None) -> None:
        self.unbegun: frozenset[CallId] = frozenset()
        self.config = config
        self.specs = {spec.path: spec for spec in specs}
        self.threads_by_app = threads_by_app or {}
        self.pool = Pool(config, specs, threads_by_app=threads_by_app)
        self.now = 100.0
        self.size = config.workers
        self.calls: dict[CallId, SeenCall] = {}
        self.workers: dict[WorkerId, SeenWorker] = {}
        self.ever: set[WorkerId] = set()
        self.deaths: Counter[int] = Counter()
        self.not_before: dict[int, float] = {}
        self.vacated: dict[int, tuple[str, ...]] = {}
        self.deadline = math.inf
        self.is_drain_near = False
        self.is_drained = False
        self.fact: ports.Fact = ports.Ticked()
        self.dead: SeenWorker | None = None  # the last one whose exit was told

    def last_moment(self) -> float:
        return max(self.deadline, self.now) + LAST_WORD_S

    def is_orphan(self, seen: SeenCall) -> bool:
        """Say whether the call came back from the worker whose death is being told."""
        return seen.ended is None and self.dead is not None and seen.worker == self.dead.id

    def is_leaving(self, worker: SeenWorker) -> bool:
        view = {view.id: view.phase for view in self.pool.snapshot().workers}
        return worker.is_told or view.get(worker.id) in (Phase.DRAINING, Phase.KILLED)

    def able(self, seen: SeenCall) -> Iterator[SeenWorker]:
        """Yield those that could take the call now, as far as the orders say."""
        phases = {view.id: view.phase for view in self.pool.snapshot().workers}
        for worker in self.workers.values():
            if phases.get(worker.id) is Phase.READY and seen.call.app in worker.apps and self.has_room(worker, seen):
                yield worker

    def has_room(self, worker: SeenWorker, seen: SeenCall) -> bool:
        same_kind = [c for c in worker.running if self.calls[c].call.kind is seen.call.kind]
        if seen.call.kind is ActionKind.ASYNC:
            return len(same_kind) < self.config.async_concurrency
        same_app = [c for c in same_kind if self.calls[c].call.app == seen.call.app]
        threads = max(self.threads_by_app.get(app, self.config.threads) for app in worker.apps)
        return len(same_kind) < threads and len(same_app) < self.threads_by_app.get(seen.call.app, self.config.threads)

    def is_new(self, seen: SeenCall) -> bool:
        """Say whether the call is being handed in, so that it may not wait yet."""
        return isinstance(self.fact, ports.Submitted) and self.fact.call.id == seen.call.id and not seen.was_sent

    def fresh(self, app: str, *, beside: SeenCall) -> list[SeenCall]:
        """Return what counts towards the bounds of the app, the oldest first."""
        return [seen for seen in self.calls.values() if seen.call.app == app and seen.is_fresh and seen is not beside]

    def fits(self, seen: SeenCall, others: list[SeenCall]) -> bool:
        size = seen.call.size + sum(other.call.size for other in others)
        is_small = len(others) < self.config.max_queued and size <= self.config.max_queued_payload_bytes
        return is_small or not others

    def is_forsaken(self, app: str) -> bool:
        """Say whether no worker with the app lives, nor will for the next two seconds."""
        seats = [seat.index for seat in self.pool.snapshot().seats if app in seat.apps]
        lives = any(app in worker.apps for worker in self.workers.values())
        return not lives and all(self.not_before.get(seat, -math.inf) > self.now + 2.0 for seat in seats)

    def was_sent_back(self, seen: SeenCall) -> bool:
        """Say whether the call waits again because the worker that died in this step had not begun it."""
        return seen.call.id in self.unbegun and self.is_orphan(seen)

    def may_rerun(self, seen: SeenCall) -> bool:
        assert self.dead is not None
        if seen.call.id in self.unbegun:
            return seen.bounces < MOST_BOUNCES
        is_late = seen.call.expires_at is not None and self.now >= seen.call.expires_at
        is_poison = self.dead.is_suspect and seen.crashes >= self.config.crash_limit
        return seen.call.idempotent and not (seen.has_streamed or is_late or is_poison)
