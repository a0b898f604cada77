"""What was found, and how it stands to the rest: medians over rounds, ratios within each round. Measures nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

__all__ = ["HIGHER_IS_BETTER", "METRICS", "Finding", "Row", "percentile", "summarise"]

#: each metric's unit in its name, in the order of the report
METRICS = ("p50_us", "p99_us", "calls_per_s", "chunks_per_s", "first_chunk_us", "ready_ms", "pss_mib", "rss_mib")
HIGHER_IS_BETTER = frozenset({"calls_per_s", "chunks_per_s"})

Params = tuple[tuple[str, int], ...]
Key = tuple[str, Params, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number that one visit found. ``cpu_us`` is CPU time for each call or chunk, over all processes."""

    suite: str
    metric: str
    value: float
    params: Mapping[str, int]
    cpu_us: float | None = None

    @property
    def key(self) -> Key:
        """What it can be compared by."""
        return self.suite, tuple(sorted(self.params.items())), self.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A finding with who, when, and the raw measure just before and after it (None where there is none)."""

    contestant: str
    against: str | None
    round: int
    finding: Finding
    raw: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The medians of one metric of one contestant.

    ``x_raw`` is the value over the raw one. ``x_gunicorn`` is how many times better than gunicorn it is: over 1 means
    faster, or smaller.
    """

    suite: str
    contestant: str
    params: Mapping[str, int]
    metric: str
    value: float
    x_raw: float | None
    x_gunicorn: float | None
    cpu_us: float | None

    def as_mapping(self) -> dict[str, Any]:
        """Return what goes into the JSON file."""
        return asdict(self)


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest of ``values`` that ``percent`` of a hundred do not exceed.

    Raises:
        ValueError: there are none.
    """
    ranked = sorted(values)
    if not ranked:
        raise ValueError("there is no percentile of nothing")
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


def summarise(placed: Iterable[Placed]) -> list[Row]:
    """Return a row for each metric of each contestant, in the order in which they were first found."""
    everything = list(placed)
    values = {(each.contestant, each.round, each.finding.key): each.finding.value for each in everything}
    groups: dict[tuple[str, Key], list[Placed]] = {}
    for each in everything:
        groups.setdefault((each.contestant, each.finding.key), []).append(each)
    return [_row(group, values) for group in groups.values()]


def _row(group: list[Placed], values: Mapping[tuple[str, int, Key], float]) -> Row:
    first = group[0]
    finding = first.finding
    return Row(
        suite=finding.suite,
        contestant=first.contestant,
        params=dict(finding.params),
        metric=finding.metric,
        value=median(each.finding.value for each in group),
        x_raw=_median_of(each.finding.value / each.raw if each.raw else None for each in group),
        x_gunicorn=_median_of(_times_better(each, values) for each in group),
        cpu_us=_median_of(each.finding.cpu_us for each in group),
    )


def _times_better(each: Placed, values: Mapping[tuple[str, int, Key], float]) -> float | None:
    """Compare with the peer's visit of the same round, so that both met the same machine."""
    if each.against is None:
        return None
    theirs, ours = values.get((each.against, each.round, each.finding.key)), each.finding.value
    if not theirs or not ours:
        return None
    return ours / theirs if each.finding.metric in HIGHER_IS_BETTER else theirs / ours


def _median_of(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None
