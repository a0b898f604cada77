"""Drive an elastic pool with any sequence of facts; `elastic_world.ElasticWorld` holds what must be true."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from dirtybus.config import AppSpec, DirtyConfig
from tests.pool.elastic_world import ElasticWorld
from tests.pool.test_pool_world import SPECS, HostileWorld, configs

DYNAMIC = (
    [AppSpec("m:A"), AppSpec("m:B")],
    [AppSpec("m:A", instances=(1, 2)), AppSpec("m:B"), AppSpec("m:C", instances=(0, 1))],
    [AppSpec("m:A", 1), AppSpec("m:B", instances=(1, 3)), AppSpec("m:C"), AppSpec("m:D")],
)
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


TestStaticHostility = StaticHostility.TestCase
TestStaticHostility.settings = settings(stateful_step_count=60)
TestDynamicHostility = DynamicHostility.TestCase
TestDynamicHostility.settings = settings(stateful_step_count=60)
