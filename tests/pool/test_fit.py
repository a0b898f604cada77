from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.pool.fit import LineFit

COSTS = st.floats(1, 1e6)
SECONDS = st.floats(0, 1e4)


def fitted(*pairs: tuple[float, float]) -> LineFit:
    fit = LineFit()
    for cost, seconds in pairs:
        fit.note(cost, seconds)
    return fit


@given(a=st.floats(1e-6, 10), b=st.floats(0, 10), costs=st.lists(st.integers(1, 1000), min_size=2, unique=True))
def test_a_true_line_is_found(a: float, b: float, costs: list[int]) -> None:
    if max(costs) < 2 * min(costs):
        costs = [*costs, 3 * max(costs)]
    fit = LineFit()
    one_round = [*costs[:2], 3 * max(costs), *costs]
    # the first may have been taken for far off, before there was a line; that fades with those that come after
    for cost in one_round * (400 // len(one_round) + 1):
        fit.note(cost, a * cost + b)
    for cost in costs:
        found_a, found_b = fit.line()
        assert found_a * cost + found_b == pytest.approx(a * cost + b, rel=1e-2)


@given(st.lists(st.tuples(COSTS, SECONDS), max_size=40), SECONDS)
def test_whatever_was_measured_the_line_rises_and_the_limit_keeps_to_it(
    pairs: list[tuple[float, float]], seconds: float
) -> None:
    fit = fitted(*pairs)
    a, b = fit.line()
    assert a >= 0
    assert b >= 0
    largest = fit.largest_within(seconds)
    most = max((cost for cost, _ in pairs), default=0)
    assert 0 <= largest <= 2 * most + 1
    is_spread = len({cost for cost, _ in pairs}) > 1
    if largest and is_spread and largest > 2 * most:
        assert largest <= most + 1 + 1e-9  # a probe
    if largest and b <= seconds:
        assert math.isfinite(a * largest + b)


@given(st.lists(st.tuples(COSTS, SECONDS), max_size=20), SECONDS, SECONDS)
def test_more_time_is_for_no_smaller_batches(pairs: list[tuple[float, float]], one: float, other: float) -> None:
    fit = fitted(*pairs)
    assert fit.largest_within(min(one, other)) <= fit.largest_within(max(one, other))


def test_what_was_never_measured_is_not_promised() -> None:
    assert LineFit().largest_within(100.0) == 0.0
    assert fitted((4, 1.0)).largest_within(0.5) == pytest.approx(2.0)


def test_one_more_is_tried_as_long_as_all_were_alike() -> None:
    assert fitted((1, 0.011), (1, 0.011)).largest_within(0.020) == 2.0
    assert fitted((1, 0.030), (1, 0.030)).largest_within(0.020) < 1.0


def test_a_limit_goes_no_farther_than_twice_what_was_measured() -> None:
    assert fitted((1, 0.01), (2, 0.01), (4, 0.01)).largest_within(10.0) == 8.0


def test_one_slow_batch_changes_little_and_many_change_the_line() -> None:
    pairs = [(cost, 0.01 + 0.001 * cost) for _ in range(10) for cost in (1, 4, 8)]
    fit = fitted(*pairs)
    before = fit.largest_within(0.020)
    fit.note(4, 5.0)
    assert fit.largest_within(0.020) > 0.7 * before
    for _ in range(60):
        for cost in (1, 4, 8):
            fit.note(cost, 0.02 + 0.002 * cost)
    assert fit.largest_within(0.028) == pytest.approx(4.0, rel=0.1)


def test_times_that_fall_with_the_cost_are_taken_for_constant() -> None:
    a, b = fitted(*[(cost, 1.0 / cost) for _ in range(5) for cost in (1, 2, 4)]).line()
    assert a == 0.0
    assert b > 0.0
