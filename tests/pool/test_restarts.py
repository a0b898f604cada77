from __future__ import annotations

import pytest

from dirtybus.config import DirtyConfig
from dirtybus.pool.restarts import deaths_in_a_row, restart_delay_s

CONFIG = DirtyConfig(restart_delay_s=0.5, restart_delay_max_s=30.0)


@pytest.mark.parametrize(("deaths", "delay_s"), [(0, 0), (1, 0), (2, 0.5), (3, 1), (4, 2), (8, 30), (5000, 30)])
def test_the_delay_doubles_with_each_death_up_to_the_cap(deaths: int, delay_s: float) -> None:
    assert restart_delay_s(deaths, CONFIG) == delay_s


def test_jitter_keeps_the_delay_between_a_half_and_the_whole() -> None:
    assert restart_delay_s(4, CONFIG, lambda: 0.0) == 1.0
    assert restart_delay_s(4, CONFIG, lambda: 1.0) == 2.0
    assert restart_delay_s(1, CONFIG, lambda: 1.0) == 0.0


@pytest.mark.parametrize(("ready_at", "now", "count"), [(None, 99.0, 4), (0.0, 9.9, 4), (0.0, 10.0, 1)])
def test_only_a_time_of_being_ready_ends_a_row_of_deaths(ready_at: float | None, now: float, count: int) -> None:
    assert deaths_in_a_row(3, ready_at, now, healthy_after_s=10.0) == count
