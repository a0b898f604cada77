"""Drive an elastic pool with any sequence of facts; `elastic_world.ElasticWorld` holds what must be true."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import ports
from dirtybus.pool.model import WorkerId
from tests.pool.books import SeenWorker
from tests.pool.elastic_world import ElasticWorld
from tests.pool.test_pool_renewal_world import HostileRenewal, RenewalWorld, renewing
from tests.pool.test_pool_world import SPECS, HostileWorld, configs

DYNAMIC = (
    [AppSpec("m:A"), AppSpec("m:B")],
    [AppSpec("m:A", instances=(1, 2)), AppSpec("m:B"), AppSpec("m:C", instances=(0, 1))],
    [AppSpec("m:A", 1), AppSpec("m:B", instances=(1, 3)), AppSpec("m:C"), AppSpec("m:D")],
)
MOST = 4
EXTENTS = st.sampled_from([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (3, 3)])


@st.composite
def elastic_configs(draw: st.DrawFn) -> DirtyConfig:
    return replace(
        draw(configs()),
        workers=1,
        pool_size=draw(EXTENTS),
        max_idle_time_s=draw(st.sampled_from([None, 0.5, 3.0])),
        scale_up_after_s=draw(st.sampled_from([0.0, 0.5, 2.0])),
    )


class ElasticHostility(HostileWorld):
    world: ElasticWorld

    @rule(by=st.sampled_from([-2, -1, 1, 2]))
    def resize(self, by: int) -> None:
        self.world.resize(max(0, self.world.size_now() + by))

    @rule(extent=EXTENTS)
    def bound(self, extent: tuple[int, int]) -> None:
        self.world.bound(*extent)

    @rule(seconds=st.sampled_from([3.0, 20.0]))
    def wait_long(self, seconds: float) -> None:
        self.world.wait(seconds)


class StaticHostility(ElasticHostility):
    @initialize(config=elastic_configs(), specs=st.sampled_from(SPECS), threads=st.sampled_from([{}, {"m:A": 3}]))
    def start(self, config: DirtyConfig, specs: list[AppSpec], threads: dict[str, int]) -> None:
        assert config.pool_size is not None
        least, most = config.pool_size
        needed = max(spec.workers or 1 for spec in specs)
        self.world = ElasticWorld(replace(config, pool_size=(least, max(most, needed))), specs, threads)


class DynamicHostility(ElasticHostility):
    @initialize(config=elastic_configs(), specs=st.sampled_from(DYNAMIC), threads=st.sampled_from([{}, {"m:A": 3}]))
    def start(self, config: DirtyConfig, specs: list[AppSpec], threads: dict[str, int]) -> None:
        assert config.pool_size is not None
        least, most = config.pool_size
        fewest = [(spec.instances or (0, 0))[0] for spec in specs]
        needed = sum(fewest) + (0 in fewest)
        extent = (least, max(most, needed))
        self.world = ElasticWorld(replace(config, pool_size=extent, placement="dynamic"), specs, threads)

    @rule(app=st.sampled_from(["m:A", "m:B", "m:C"]), size=st.integers(0, 3))
    def resize_app(self, app: str, size: int) -> None:
        if app in self.world.specs:
            self.world.resize_app(app, size)


class ElasticRenewal(RenewalWorld):
    """Reloads and circuits in a pool whose size follows the calls: who is where is judged in the other worlds."""

    def see_spawn(self, worker_id: WorkerId, apps: tuple[str, ...]) -> None:
        assert apps, "a worker without apps"
        assert worker_id not in self.ever, "a worker id came twice"
        view = next(view for view in self.pool.snapshot().workers if view.id == worker_id)
        self.ever.add(worker_id)
        self.generations[worker_id] = view.generation
        self.workers[worker_id] = SeenWorker(worker_id, view.seat, apps, self.now)
        staying = [worker for worker in self.workers.values() if not self.is_leaving(worker)]
        assert len(staying) <= MOST + 2, f"{len(staying)} workers where {MOST} and a surge may be"

    def resize(self, size: int) -> None:
        self.feed(ports.Resized(size))

    def assert_whole(self) -> None:
        assert all(seen.ended for seen in self.calls.values()), "a call got no end in a kind world"
        assert len(self.reports) == self.begun, "a reload was never reported"
        for app, spec in self.specs.items():
            few = (spec.instances or (0, 0))[0] if self.config.placement == "dynamic" else spec.workers or 0
            holders = sum(1 for worker in self.workers.values() if app in worker.apps and worker.ready_at is not None)
            assert holders >= few, f"{holders} workers hold {app}, {few} should"


def fitting(config: DirtyConfig, specs: list[AppSpec], extent: tuple[int, int]) -> DirtyConfig:
    """Return the settings with an extent that the apps fit into, elastic or not."""
    fewest = [(spec.instances or (0, 0))[0] for spec in specs]
    needed = max([sum(fewest) + (0 in fewest), *(spec.workers or 1 for spec in specs)])
    fitted = replace(config, workers=1, placement="static", pool_size=(extent[0], max(extent[1], needed)))
    return replace(fitted, placement="dynamic") if specs in DYNAMIC else fitted


class ElasticRenewalHostility(HostileRenewal):
    world: ElasticRenewal

    @initialize(config=renewing(), specs=st.sampled_from([*SPECS, *DYNAMIC]), extent=EXTENTS)
    def start(self, config: DirtyConfig, specs: list[AppSpec], extent: tuple[int, int]) -> None:
        config = replace(config, max_idle_time_s=2.0, scale_up_after_s=0.5)
        self.world = ElasticRenewal(fitting(config, specs, extent), specs)

    @rule(config=renewing(), specs=st.sampled_from([*SPECS, *DYNAMIC]), extent=EXTENTS, is_fixed=st.booleans())
    def reload(self, config: DirtyConfig, specs: list[AppSpec], extent: tuple[int, int], is_fixed: bool) -> None:
        old = replace(self.world.config, max_surge=config.max_surge, max_unavailable=config.max_unavailable)
        new = fitting(old, specs, extent)
        assert new.pool_size is not None
        if is_fixed and specs in SPECS:
            new = replace(new, pool_size=None, workers=new.pool_size[1])
        most = new.workers if new.pool_size is None else new.pool_size[1]
        self.world.begin_reload(new, specs, most if is_fixed else min(self.world.pool.size, most))

    @rule(extent=EXTENTS)
    def bound(self, extent: tuple[int, int]) -> None:
        self.world.feed(ports.Bounded(*extent))


TestElasticRenewal = ElasticRenewalHostility.TestCase
TestElasticRenewal.settings = settings(stateful_step_count=60)
TestStaticHostility = StaticHostility.TestCase
TestStaticHostility.settings = settings(stateful_step_count=60)
TestDynamicHostility = DynamicHostility.TestCase
TestDynamicHostility.settings = settings(stateful_step_count=60)
