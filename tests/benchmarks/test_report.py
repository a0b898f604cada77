from __future__ import annotations

from benchmarks.report import closing_line, tables
from benchmarks.rows import Row

NAME = "dirtybus in process"


def row(metric: str, value: float, x_gunicorn: float | None, *, concurrency: int = 1, workers: int = 1) -> Row:
    return Row(
        suite="calls",
        contestant=NAME,
        params={"concurrency": concurrency, "workers": workers},
        metric=metric,
        value=value,
        x_raw=2.5,
        x_gunicorn=x_gunicorn,
        cpu_us=31.25,
    )


ROWS = [
    row("p50_us", 25.0, 11.0),
    row("calls_per_s", 12_345.6, 9.0),
    row("p50_us", 400.0, 7.0, concurrency=8),
    row("calls_per_s", 23_456.0, 21.5, concurrency=8),
    row("calls_per_s", 1.0, 99.0, concurrency=8, workers=2),
]


def test_the_closing_line_takes_one_caller_for_p50_and_the_most_for_the_rate() -> None:
    assert closing_line(ROWS) == (
        "in process: p50 11.0 x faster (1 caller), 21.5 x the calls/s (8 callers) of gunicorn.dirty's async client "
        "in the same run"
    )


def test_without_gunicorn_the_closing_line_says_so() -> None:
    assert closing_line([row("p50_us", 25.0, None)]) == "in process: not compared with gunicorn.dirty in this run"
    assert "not compared" in closing_line([])


def test_each_load_has_a_table_with_values_ratios_and_cpu() -> None:
    heading, table, *_ = tables(ROWS, is_terminal=False).split("\n\n")
    assert heading == "no-op calls: concurrency 1, workers 1"
    titles, line = table.splitlines()
    assert " ".join(titles.split()) == "contestant p50 µs x raw x gunicorn calls/s x raw x gunicorn CPU µs"
    assert line.removeprefix(NAME).split() == ["25.0", "2.50", "11.0", "12,346", "2.50", "9.00", "31.2"]


def test_what_was_not_compared_is_left_blank() -> None:
    table = tables([row("p50_us", 25.0, None)], is_terminal=False).split("\n\n")[1]
    assert table.splitlines()[1].removeprefix(NAME).split() == ["25.0", "2.50", "31.2"]


def test_only_a_terminal_gets_escape_codes() -> None:
    assert "\033[1mno-op calls" in tables(ROWS, is_terminal=True)
    assert "\033" not in tables(ROWS, is_terminal=False)
