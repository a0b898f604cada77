"""How much is measured: rounds, loads and their bounds. Knows no contestant and starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["FULL", "QUICK", "SUITES", "Bounds", "Plan"]

SUITES = ("calls", "stream", "start", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A load ends after so many calls or so many seconds, whichever comes first."""

    calls: int
    span_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of the benchmarks.

    Attributes:
        rounds: how often each contestant is visited; its medians count.
        concurrencies: how many calls are under way at the same time, one load each.
        workers: pool sizes, one visit each.
        chunks: how long the measured stream is.
        bounds: where one load ends.
        visit_limit_s: after how long a contestant that is not done is killed.
        suites: which of `SUITES` are measured.
        contestants: names of those that take part; empty for all.
    """

    rounds: int
    concurrencies: Sequence[int]
    workers: Sequence[int]
    chunks: int
    bounds: Bounds
    visit_limit_s: float
    suites: Sequence[str] = SUITES
    contestants: Sequence[str] = ()

    def narrowed(self, *, rounds: int | None, suites: Sequence[str], contestants: Sequence[str]) -> Plan:
        """Return this plan with what was asked for; None and empty leave it as it is."""
        return replace(
            self,
            rounds=self.rounds if rounds is None else rounds,
            suites=tuple(suites) or self.suites,
            contestants=tuple(contestants),
        )


QUICK = Plan(
    rounds=3,
    concurrencies=(1, 8),
    workers=(1,),
    chunks=2_000,
    bounds=Bounds(calls=8_000, span_s=0.6),
    visit_limit_s=30.0,
)
FULL = Plan(
    rounds=5,
    concurrencies=(1, 8, 64),
    workers=(1, 2),
    chunks=10_000,
    bounds=Bounds(calls=100_000, span_s=2.0),
    visit_limit_s=120.0,
)
