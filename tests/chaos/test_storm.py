"""A short storm over real workers, and its plan. ``scripts/storm`` rages for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, plan_faults
from tests.chaos.report import as_mapping, closing_line, tables
from tests.chaos.storm import Storm, rage


def test_the_same_seed_plans_the_same_faults_and_another_seed_others() -> None:
    assert Storm(seconds=60, seed=7).plan() == Storm(seconds=60, seed=7).plan()
    assert Storm(seconds=60, seed=7).plan() != Storm(seconds=60, seed=8).plan()


def test_a_plan_has_every_fault_but_those_left_out_and_keeps_to_its_time() -> None:
    planned = plan_faults(1, 30.0, per_s=5.0, without={"pause"})
    assert {fault.name for fault in planned} == FAULTS.keys() - {"pause"}
    assert 100 < len(planned) < 200
    moments = [fault.at_s for fault in planned]
    assert moments == sorted(moments)
    assert moments[-1] < 30.0
    assert plan_faults(1, 30.0, per_s=5.0, without=FAULTS) == []


@pytest.mark.timeout(120)
async def test_a_pool_that_grows_shrinks_and_recycles_by_itself_keeps_every_promise_too(tmp_path: Path) -> None:
    report = await rage(Storm(seconds=5, seed=4, elastic=True), tmp_path)
    assert report.is_clean, tables(report)
    assert report.kills >= 3, tables(report)


@pytest.mark.timeout(120)
async def test_a_short_storm_loses_doubles_and_confuses_nothing(tmp_path: Path) -> None:
    report = await rage(Storm(seconds=5, seed=3), tmp_path)
    assert report.is_clean, tables(report)
    assert report.kills >= 3, tables(report)
    assert sum(report.faults.values()) >= 5, tables(report)
    words = dict(word.split("=") for word in closing_line(report).split())
    assert int(words["answered"]) >= 100
    assert [words[what] for what in ("lost", "doubled", "wrong", "hung", "seed")] == ["0", "0", "0", "0", "3"]
    assert as_mapping(report)["is_clean"]
