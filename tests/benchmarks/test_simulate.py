"""The simulation: it loses nothing, says the same twice, and an elastic pool is worth its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulate import Simulation, pools
from benchmarks.traffic import SHAPES, constant, recorded, shaped
from dirtybus.config import DirtyConfig


def test_every_call_is_answered_and_the_same_seed_gives_the_same() -> None:
    rate, peak = SHAPES["bursts"]
    traffic = list(shaped(rate, peak, 120.0, 0.25, seed=1))
    for _, config in pools(4):
        first, second = (Simulation(config).run(traffic) for _ in range(2))
        assert first.calls == len(first.latencies_s) == len(traffic)
        assert not first.lost
        assert (first.cost_s, first.waits_s) == (second.cost_s, second.waits_s)
        assert first.most <= 4


def test_an_elastic_pool_costs_less_than_the_fixed_one_that_it_may_become() -> None:
    rate, peak = SHAPES["flash crowd"]
    traffic = list(shaped(rate, peak, 900.0, 0.25, seed=1))
    results = {name: Simulation(config).run(traffic) for name, config in pools(12)}
    assert results["elastic, 1-12"].cost_s < 0.6 * results["fixed, 12"].cost_s
    assert results["elastic, 1-12"].p99_s < results["fixed, 6"].p99_s


def test_a_queue_of_one_server_waits_as_theory_says() -> None:
    """M/M/1 at 50 % load: the mean wait is as long as the mean service."""
    result = Simulation(DirtyConfig(timeout_s=None), boot_s=0.0).run(constant(2.0, 20_000.0, 0.25, seed=3))
    assert sum(result.waits_s) / len(result.waits_s) == pytest.approx(0.25, rel=0.1)


def test_a_recording_is_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,duration_s\n0.5,0.1\n1.0,0.2\n")
    assert list(recorded(trace)) == [(0.5, 0.1), (1.0, 0.2)]
    trace.write_text("arrival_s,duration_s\n0.5,0.1\nsoon,0.2\n")
    with pytest.raises(SystemExit, match="line 3"):
        list(recorded(trace))
