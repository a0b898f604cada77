"""What a storm did, for a reader: two tables, the breaches, and the closing line. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.chaos.records import Outcome
from tests.chaos.storm import StormReport

__all__ = ["as_mapping", "closing_line", "tables"]

_MOST_BREACHES = 20


def tables(report: StormReport) -> str:
    """Return faults, deaths and calls as text, and what went wrong."""
    return "\n".join(_lines(report))


def closing_line(report: StormReport) -> str:
    """Return the line that says it all."""
    answered = sum(outcomes.get(Outcome.ANSWER, 0) for outcomes in report.calls.values())
    words = {
        "kills": report.kills,
        "calls": sum(sum(outcomes.values()) for outcomes in report.calls.values()),
        "answered": answered,
        **{what: report.count(what) for what in ("lost", "doubled", "wrong", "hung")},
        "longest_stall_ms": round(report.longest_stall_s * 1000),
        "seed": report.storm.seed,
    }
    return " ".join(f"{name}={value}" for name, value in words.items())


def as_mapping(report: StormReport) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "seed": report.storm.seed,
        "seconds": report.storm.seconds,
        "without": sorted(report.storm.without),
        "kills": report.kills,
        "faults": dict(report.faults),
        "missed": dict(report.missed),
        "deaths": dict(report.deaths),
        "calls": {kind: dict(outcomes) for kind, outcomes in report.calls.items()},
        "ledger": dict(report.ledger),
        **{what: report.count(what) for what in ("lost", "doubled", "wrong", "hung")},
        "breaches": [str(breach) for breach in report.breaches],
        "left": report.left,
        "longest_stall_ms": round(report.longest_stall_s * 1000),
        "is_clean": report.is_clean,
    }


def _lines(report: StormReport) -> Iterator[str]:
    faults = [
        [name, str(report.faults.get(name, 0)), str(report.missed.get(name, 0) or "")]
        for name in sorted({*report.faults, *report.missed})
    ]
    yield from _table([["fault", "happened", "nobody there"], *faults])
    yield ""
    deaths = sorted(report.deaths.items(), key=lambda death: -death[1])
    yield from _table([["a worker died", "times"], *([why, str(times)] for why, times in deaths)])
    yield ""
    outcomes = [outcome for outcome in Outcome if any(outcome in told for told in report.calls.values())]
    rows = [
        [kind, *(str(told.get(outcome, "")) for outcome in outcomes)] for kind, told in sorted(report.calls.items())
    ]
    yield from _table([["call", *outcomes], *rows])
    yield ""
    yield "ledger: " + ", ".join(f"{name} {count}" for name, count in report.ledger.items())
    for breach in report.breaches[:_MOST_BREACHES]:
        yield str(breach)
    if len(report.breaches) > _MOST_BREACHES:
        yield f"… and {len(report.breaches) - _MOST_BREACHES} more"
    for thing in report.left:
        yield f"amiss: {thing}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        yield "  ".join(cells).rstrip()
