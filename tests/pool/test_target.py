"""The policy of autoscaling: within its limits, calm at a constant load, soon up and late down, never a flutter."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import ScalingConfig
from dirtybus.pool.target import Advice, Load, TargetTracking

CONFIG = ScalingConfig(policy="target", target_busy=0.5, window_s=10.0, up_cooldown_s=2.0, down_cooldown_s=10.0)


def run(policy: TargetTracking, loads: list[float], size: int = 1, *, memory: float = 0.0) -> list[int]:
    """Return the size after each second with so many calls in it, as long as the advice is followed."""
    sizes = []
    for second, demand in enumerate(loads):
        busy = min(size, round(demand))
        load = Load(at=float(second), size=size, threads=1, busy=busy, queued=round(demand) - busy, memory=memory)
        if advice := policy.look(load):
            size = advice.workers
        sizes.append(size)
    return sizes


def test_a_load_gets_the_workers_that_keep_it_at_the_target() -> None:
    assert run(TargetTracking(CONFIG, 1, 20), [4.0] * 60)[-1] == 8


def test_a_burst_is_followed_within_seconds_and_its_end_after_a_while() -> None:
    sizes = run(TargetTracking(CONFIG, 1, 20), [0.0] * 5 + [8.0] * 20 + [0.0] * 120)
    assert max(sizes[:5]) == 1
    assert sizes[10] >= 12
    assert sizes[30] >= 12, "it came down as soon as the burst was over"
    assert sizes[-1] == 1


def test_to_zero_and_back() -> None:
    sizes = run(TargetTracking(CONFIG, 0, 5), [1.0] * 20 + [0.0] * 200 + [1.0] * 5)
    assert sizes[219] == 0
    assert sizes[-1] == 2


def test_nobody_is_added_where_memory_is_short() -> None:
    assert run(TargetTracking(CONFIG, 1, 20), [9.0] * 30, memory=0.95) == [1] * 30


def test_the_advice_says_why() -> None:
    advice = TargetTracking(CONFIG, 1, 20).look(Load(at=0.0, size=1, threads=2, busy=2, queued=4))
    assert advice == Advice(6, "6.0 calls at a time need 6 workers at 50% of their time")


@given(st.lists(st.integers(0, 60), min_size=1, max_size=80), st.integers(0, 3), st.sampled_from([0, 3, 9, 200]))
def test_it_never_leaves_its_limits_and_keeps_its_distances(loads: list[int], least: int, more: int) -> None:
    most = least + more + 1
    policy = TargetTracking(CONFIG, least, most)
    size, up_at, stepped_at = least, -math.inf, -math.inf
    for second, demand in enumerate(loads):
        at, busy = float(second), min(size, demand)
        advice = policy.look(Load(at=at, size=size, threads=1, busy=busy, queued=demand - busy))
        if advice is None:
            continue
        assert least <= advice.workers <= most
        assert advice.workers != size
        if advice.workers > size:
            assert at >= up_at + CONFIG.up_cooldown_s
            up_at = at
        else:
            assert at >= stepped_at + CONFIG.down_cooldown_s
        size, stepped_at = advice.workers, at


@pytest.mark.parametrize("demand", [1, 2, 3, 7, 15])
def test_a_constant_load_is_left_alone_once_it_is_met(demand: int) -> None:
    sizes = run(TargetTracking(CONFIG, 1, 99), [float(demand)] * 200)
    assert len(set(sizes[20:])) == 1, f"it flutters: {sizes}"


def test_steps_keep_their_distance() -> None:
    rising = [float(2 * second) for second in range(12)]
    sizes = run(TargetTracking(CONFIG, 1, 99), rising + [0.0] * 60)
    ups = [second for second in range(1, 12) if sizes[second] > sizes[second - 1]]
    downs = [second for second in range(12, 72) if sizes[second] < sizes[second - 1]]
    assert all(later - sooner >= 2 for sooner, later in pairwise(ups))
    assert all(later - sooner >= 10 for sooner, later in pairwise(downs))
    assert len(ups) > 3
    assert len(downs) > 2
