"""The hostile world again, with reloads at any moment and circuits that open: who is replaced, nobody is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.model import Call, Phase, Refusal, WorkerId
from tests.pool.books import SeenCall, SeenWorker
from tests.pool.test_pool_world import SPECS, HostileWorld, configs
from tests.pool.worlds import World

NO_WORKER_FOR_IT = (Refusal.APP_BROKEN, Refusal.NO_WORKERS, Refusal.UNKNOWN_APP)


class RenewalWorld(World):
    """A world whose workers are replaced while they live. Which seat is filled when is not judged here."""

    def __init__(self, config: DirtyConfig, specs: list[AppSpec], threads_by_app: dict[str, int] | None = None) -> None:
        self.reload: ports.ReloadBegun | None = None
        self.reports: list[ports.ReportReload] = []
        self.begun = 0
        self.reload_generation = 0
        self.surge = 1
        self.ready_before: dict[WorkerId, tuple[str, ...]] = {}
        self.generations: dict[WorkerId, int] = {}
        super().__init__(config, specs, threads_by_app)

    def feed(self, fact: ports.Fact) -> None:
        self.ready_before = self.holders()
        super().feed(fact)

    def holders(self) -> dict[WorkerId, tuple[str, ...]]:
        return {view.id: view.apps for view in self.pool.snapshot().workers if view.phase is Phase.READY}

    def begin_reload(self, config: DirtyConfig, specs: list[AppSpec], size: int) -> None:
        self.begun += 1
        fact = ports.ReloadBegun(self.begun, config, tuple(specs), size, self.threads_by_app)
        if self.reload is None and self.deadline == math.inf:
            self.reload, self.reload_generation = fact, self.begun
        self.feed(fact)

    def apply(self, order: ports.Order) -> None:
        match order:
            case ports.CommitReload():
                assert self.reload is not None
                self.config, self.size = self.reload.config, self.reload.size
                self.specs = {spec.path: spec for spec in self.reload.specs}
            case ports.ReportReload():
                self.reports.append(order)
                if order.generation == self.reload_generation:
                    self.reload = None
            case _:
                super().apply(order)

    def see_spawn(self, worker_id: WorkerId, apps: tuple[str, ...]) -> None:
        assert apps, "a worker without apps"
        assert worker_id not in self.ever, "a worker id came twice"
        view = next(view for view in self.pool.snapshot().workers if view.id == worker_id)
        self.ever.add(worker_id)
        self.generations[worker_id] = view.generation
        self.workers[worker_id] = SeenWorker(worker_id, view.seat, apps, self.now)
        staying = [worker for worker in self.workers.values() if not self.is_leaving(worker)]
        self.surge = max(self.surge, self.config.max_surge, self.reload.config.max_surge if self.reload else 0)
        sizes = (self.size, self.pool.size, self.reload.size if self.reload else 0)
        assert len(staying) <= max(sizes) + self.surge, (
            f"{staying} are more than {sizes} and {self.surge} allow; {self.pool.snapshot()}"
        )

    def assert_least_busy(self, worker: SeenWorker, seen: SeenCall) -> None:
        for other in self.able(seen):
            newer = self.generations[other.id] - self.generations[worker.id]
            assert newer <= 0, f"worker {other.id} is newer than {worker.id} and has room"
            assert newer or len(other.running) >= len(worker.running), f"worker {other.id} was less busy"

    def see_refusal(self, seen: SeenCall, order: ports.Refuse) -> None:
        if order.why in NO_WORKER_FOR_IT:
            assert seen.ended is None
            ready = {view.id for view in self.pool.snapshot().workers if view.phase is Phase.READY}
            still = [one for one, apps in self.ready_before.items() if seen.call.app in apps and one in ready]
            assert not still or order.why is Refusal.UNKNOWN_APP, f"refused although workers {still} have the app"
            seen.ended, seen.worker = order.why.value, None
        else:
            super().see_refusal(seen, order)

    def see_retire(self, worker: SeenWorker) -> None:
        assert not worker.running, "a worker with calls was told to leave"
        worker.is_told = True
        worker.must_leave_by = min(self.now + self.config.graceful_timeout_s, self.last_moment())

    def book_death(self, worker: SeenWorker) -> None:
        """Delays and deaths of seats are judged in the other world."""

    def due_spawns(self) -> Iterator[tuple[float, str]]:
        return iter(())

    def submit(self, call: Call) -> None:
        assert call.id not in self.calls
        self.calls[call.id] = SeenCall(call)
        self.feed(ports.Submitted(call))

    def resize(self, size: int) -> None:
        if self.reload is None and self.deadline == math.inf:
            self.size = max(size, self.pool.smallest_size())
        self.feed(ports.Resized(size))
        self.size = self.pool.size

    def assert_whole(self) -> None:
        assert all(seen.ended for seen in self.calls.values()), "a call got no end in a kind world"
        assert len(self.reports) == self.begun, "a reload was never reported"
        for app, spec in self.specs.items():
            holders = sum(1 for worker in self.workers.values() if app in worker.apps and worker.ready_at is not None)
            wanted = self.pool.size if spec.workers is None else spec.workers
            # old workers serve on when a reload fails half-way, with all that they have
            assert holders >= wanted, f"{holders} workers hold {app}, {wanted} should"
            assert holders == wanted or any(not report.is_done for report in self.reports)
        assert all(not self.is_leaving(worker) for worker in self.workers.values())


@st.composite
def renewing(draw: st.DrawFn) -> DirtyConfig:
    surge = draw(st.integers(0, 2))
    return replace(
        draw(configs()),
        max_restarts=draw(st.sampled_from([None, 1, 2])),
        restart_period_s=draw(st.sampled_from([2.0, 60.0])),
        max_surge=surge,
        max_unavailable=draw(st.integers(0 if surge else 1, 2)),
    )


class HostileRenewal(HostileWorld):
    world: RenewalWorld

    @initialize(config=renewing(), specs=st.sampled_from(SPECS), threads=st.sampled_from([{}, {"m:A": 3}, {"m:B": 1}]))
    def start(self, config: DirtyConfig, specs: list[AppSpec], threads: dict[str, int]) -> None:
        self.world = RenewalWorld(config, specs, threads)
        self.boot_all()

    @rule(config=renewing(), specs=st.sampled_from(SPECS), more=st.integers(0, 1))
    def reload(self, config: DirtyConfig, specs: list[AppSpec], more: int) -> None:
        size = max([2, *(spec.workers or 1 for spec in specs)]) + more
        # other graces would make it a matter of moments whose end this world judges
        config = replace(
            self.world.config, workers=size, max_surge=config.max_surge, max_unavailable=config.max_unavailable
        )
        self.world.begin_reload(config, specs, size)

    @precondition(HostileWorld.some_worker)
    @rule(data=st.data())
    def die_and_be_blamed(self, data: st.DataObject) -> None:
        worker = self.world.workers[data.draw(st.sampled_from(sorted(self.world.workers)))]
        self.world.exit(worker.id, blamed=(data.draw(st.sampled_from(worker.apps)),))

    @rule()
    def see_the_reload_through(self) -> None:
        for _ in range(4):
            self.world.kill_and_leave()
            self.boot_all()


TestHostileRenewal = HostileRenewal.TestCase
TestHostileRenewal.settings = settings(stateful_step_count=60)
