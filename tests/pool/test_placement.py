from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import AppSpec
from dirtybus.errors import ConfigError
from dirtybus.pool.placement import plan, smallest_size, unlimited_apps, why_not
from tests.pool.boxes import specs


def test_an_app_without_a_limit_sits_on_every_seat() -> None:
    assert plan(specs("m:A", "m:B"), 2) == [("m:A", "m:B"), ("m:A", "m:B")]


def test_limited_apps_are_spread_and_not_stacked_on_the_first_seat() -> None:
    assert plan(specs("m:Light", "m:Heavy:2", "m:Single:1"), 4) == [
        ("m:Light", "m:Heavy"),
        ("m:Light", "m:Heavy"),
        ("m:Light", "m:Single"),
        ("m:Light",),
    ]


def test_apps_stand_on_a_seat_in_the_order_of_the_specs() -> None:
    assert plan(specs("m:Z:1", "m:A", "m:M:1"), 1) == [("m:Z", "m:A", "m:M")]


def test_a_seat_may_hold_nothing() -> None:
    assert plan(specs("m:A:1"), 3) == [("m:A",), (), ()]


@pytest.mark.parametrize(("texts", "size"), [(["m:A:3"], 2), (["m:A", "m:A:1"], 2), (["m:A"], 0)])
def test_specs_that_can_never_be_met_are_refused_by_name(texts: list[str], size: int) -> None:
    with pytest.raises(ConfigError, match="m:A"):
        plan(specs(*texts), size)


def test_what_must_stay_are_the_seats_of_limited_apps_and_one_for_the_others() -> None:
    assert smallest_size([("m:A",), ("m:A",)], ["m:A"]) == 1
    assert smallest_size([("m:A", "m:B"), ("m:A",)], ["m:A"]) == 1
    assert smallest_size([("m:B",), ("m:C",), ()], []) == 2
    assert smallest_size([(), ()], []) == 0


def test_a_size_that_is_large_enough_needs_no_excuse() -> None:
    assert why_not(3, 3) is None


@given(st.integers(1, 9), st.lists(st.none() | st.integers(1, 9), max_size=6))
def test_every_plan_gives_each_app_its_seats_and_spreads_them_evenly(size: int, limits: list[int | None]) -> None:
    apps = [AppSpec(f"m:A{n}", None if limit is None else min(limit, size)) for n, limit in enumerate(limits)]
    seats = plan(apps, size)
    assert len(seats) == size
    for spec in apps:
        assert sum(here.count(spec.path) for here in seats) == (size if spec.workers is None else spec.workers)
    limited = [len(set(here) - set(unlimited_apps(apps))) for here in seats]
    assert max(limited) - min(limited) <= 1, "one seat got two limited apps more than another"
    order = [spec.path for spec in apps]
    assert all(list(here) == [path for path in order if path in here] for here in seats)
