from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from benchmarks.raw import Raw
from benchmarks.rows import Finding, Placed, Row, percentile, summarise

ONE = {"concurrency": 1, "workers": 1}


def placed(
    contestant: str,
    value: float,
    *,
    turn: int = 0,
    metric: str = "p50_us",
    raw: float | None = None,
    cpu_us: float | None = None,
    params: Mapping[str, int] = ONE,
) -> Placed:
    finding = Finding(suite="calls", metric=metric, value=value, params=params, cpu_us=cpu_us)
    return Placed(contestant=contestant, against="theirs", round=turn, finding=finding, raw=raw)


def only(rows: list[Row], contestant: str) -> Row:
    (row,) = [row for row in rows if row.contestant == contestant]
    return row


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([5], 50, 5), ([3, 1, 2], 50, 2), ([4, 3, 2, 1], 50, 2), (range(1, 101), 99, 99), (range(1, 101), 100, 100)],
)
def test_a_percentile_is_one_of_the_values(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)


def test_a_row_holds_the_medians_of_its_rounds() -> None:
    values = [30.0, 10.0, 20.0]
    rows = summarise(placed("ours", v, turn=n, raw=5.0, cpu_us=v / 10) for n, v in enumerate(values))
    assert rows == [
        Row(
            suite="calls",
            contestant="ours",
            params=ONE,
            metric="p50_us",
            value=20.0,
            x_raw=4.0,
            x_gunicorn=None,
            cpu_us=2.0,
        )
    ]


def test_a_ratio_is_taken_within_each_round_before_the_median() -> None:
    # the machine was ten times slower in the second round, for both
    rows = summarise(
        [
            placed("ours", 10.0, turn=0), placed("theirs", 50.0, turn=0),
            placed("ours", 100.0, turn=1), placed("theirs", 500.0, turn=1),
            placed("ours", 10.0, turn=2), placed("theirs", 60.0, turn=2),
        ]
    )  # fmt: skip
    assert only(rows, "ours").x_gunicorn == 5.0
    assert only(rows, "theirs").x_gunicorn == 1.0


def test_over_one_is_better_for_times_and_for_rates() -> None:
    rows = summarise([placed("ours", 10.0), placed("theirs", 50.0)])
    assert only(rows, "ours").x_gunicorn == 5.0
    rows = summarise([placed("ours", 500.0, metric="calls_per_s"), placed("theirs", 100.0, metric="calls_per_s")])
    assert only(rows, "ours").x_gunicorn == 5.0


def test_other_loads_are_not_compared() -> None:
    rows = summarise([placed("ours", 10.0), placed("theirs", 50.0, params={"concurrency": 8, "workers": 1})])
    assert only(rows, "ours").x_gunicorn is None


def test_a_round_that_a_peer_missed_does_not_count_for_the_ratio() -> None:
    rows = summarise([placed("ours", 10.0, turn=0), placed("theirs", 40.0, turn=0), placed("ours", 1.0, turn=1)])
    assert only(rows, "ours").x_gunicorn == 4.0


def test_a_row_in_json_has_exactly_the_promised_fields() -> None:
    (row,) = summarise([placed("ours", 10.0)])
    told = json.loads(json.dumps(row.as_mapping()))
    assert list(told) == ["suite", "contestant", "params", "metric", "value", "x_raw", "x_gunicorn", "cpu_us"]
    assert told["params"] == {"concurrency": 1, "workers": 1}
    assert (told["x_raw"], told["x_gunicorn"], told["cpu_us"]) == (None, None, None)


def test_the_raw_measure_of_a_visit_lies_between_those_around_it() -> None:
    before = Raw(p50_us=10.0, p99_us=20.0, calls_per_s=100.0, chunks_per_s=1000.0)
    after = Raw(p50_us=20.0, p99_us=40.0, calls_per_s=50.0, chunks_per_s=500.0)
    between = before.between(after)
    assert between == Raw(p50_us=15.0, p99_us=30.0, calls_per_s=75.0, chunks_per_s=750.0)
    assert (between.of("p50_us"), between.of("pss_mib")) == (15.0, None)
    assert {(each.suite, each.metric) for each in between.findings()} == {
        ("calls", "p50_us"),
        ("calls", "p99_us"),
        ("calls", "calls_per_s"),
        ("stream", "chunks_per_s"),
    }
