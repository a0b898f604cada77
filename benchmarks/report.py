"""The findings for a reader: a table for each load, and the line that the README quotes. Measures nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.roster import IN_PROCESS
from benchmarks.rows import METRICS, Row

__all__ = ["closing_line", "tables"]

_TITLES = {
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "calls_per_s": "calls/s",
    "chunks_per_s": "chunks/s",
    "first_chunk_us": "first chunk µs",
    "ready_ms": "first answer ms",
    "pss_mib": "worker PSS MiB",
    "rss_mib": "worker RSS MiB",
}
_HEADINGS = {
    "calls": "no-op calls",
    "stream": "one stream of short texts",
    "start": "from the start of the process to the first answer",
    "memory": "the largest worker, idle",
}
#: these say nothing beside the raw measure, or twice the same
_WITHOUT_RATIOS = frozenset({"p99_us", "first_chunk_us", "rss_mib"})


def tables(rows: Sequence[Row], *, is_terminal: bool) -> str:
    """Return the tables as text; headings stand out on a terminal."""
    loads = dict.fromkeys((row.suite, tuple(sorted(row.params.items()))) for row in rows)
    parts = []
    for suite, params in sorted(loads, key=lambda load: (list(_HEADINGS).index(load[0]), load[1])):
        its = [row for row in rows if row.suite == suite and tuple(sorted(row.params.items())) == params]
        heading = f"{_HEADINGS[suite]}: {', '.join(f'{name} {value}' for name, value in params)}"
        parts.append(f"\033[1m{heading}\033[0m" if is_terminal else heading)
        parts.append(_table(its))
    return "\n\n".join(parts)


def closing_line(rows: Sequence[Row]) -> str:
    """Return how dirtybus in process stands against gunicorn's client, in one sentence."""
    lone = _ratio(rows, "p50_us", lambda concurrency: concurrency == 1)
    crowd = _ratio(rows, "calls_per_s", lambda _: True)
    if lone is None or crowd is None:
        return "in process: not compared with gunicorn.dirty in this run"
    return (
        f"in process: p50 {lone[0]:.1f} x faster (1 caller), {crowd[0]:.1f} x the calls/s ({crowd[1]} callers) "
        "of gunicorn.dirty's async client in the same run"
    )


def _ratio(rows: Sequence[Row], metric: str, fits: Callable[[int], bool]) -> tuple[float, int] | None:
    """Return the ratio with the most callers that ``fits``, with one worker, and how many they are."""
    found = [
        (row.params["concurrency"], row.x_gunicorn)
        for row in rows
        if (row.contestant, row.metric, row.params.get("workers")) == (IN_PROCESS, metric, 1)
        and row.x_gunicorn is not None
        and fits(row.params["concurrency"])
    ]
    if not found:
        return None
    callers, ratio = max(found)
    return ratio, callers


def _table(rows: Sequence[Row]) -> str:
    metrics = [metric for metric in METRICS if any(row.metric == metric for row in rows)]
    has_cpu = any(row.cpu_us is not None for row in rows)
    lines = [[*_titles(metrics), "CPU µs"] if has_cpu else _titles(metrics)]
    for name in dict.fromkeys(row.contestant for row in rows):
        its = {row.metric: row for row in rows if row.contestant == name}
        cpu_us = next((row.cpu_us for row in its.values() if row.cpu_us is not None), None)
        lines.append([name, *_cells(metrics, its), *([_number(cpu_us)] if has_cpu else [])])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(_joined(line, widths) for line in lines)


def _titles(metrics: Sequence[str]) -> list[str]:
    titles = ["contestant"]
    for metric in metrics:
        titles += [_TITLES[metric]] if metric in _WITHOUT_RATIOS else [_TITLES[metric], "x raw", "x gunicorn"]
    return titles


def _cells(metrics: Sequence[str], its: dict[str, Row]) -> Iterator[str]:
    for metric in metrics:
        row = its.get(metric)
        yield "" if row is None else _number(row.value)
        if metric not in _WITHOUT_RATIOS:
            yield "" if row is None else _number(row.x_raw)
            yield "" if row is None else _number(row.x_gunicorn)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _joined(line: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = line
    return "  ".join(
        [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
    )
