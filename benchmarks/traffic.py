"""Traffic for simulations: when calls arrive and how long each takes. Made from a seed, or read from a recording."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

__all__ = ["SHAPES", "Arrival", "constant", "recorded", "shaped"]

#: When a call arrives and how long it runs, in seconds.
Arrival = tuple[float, float]
#: Arrivals per second at a moment.
Rate = Callable[[float], float]


def shaped(rate: Rate, peak: float, span_s: float, mean_s: float, seed: int) -> Iterator[Arrival]:
    """Yield Poisson arrivals whose rate changes, with exponential durations.

    Lewis and Shedler's thinning: candidates come at the ``peak`` rate, and each stays with the share that the rate has.
    """
    numbers = random.Random(seed)
    at = 0.0
    while (at := at + numbers.expovariate(peak)) < span_s:
        if numbers.random() * peak < rate(at):
            yield at, numbers.expovariate(1.0 / mean_s)


def constant(rate: float, span_s: float, mean_s: float, seed: int) -> Iterator[Arrival]:
    """Yield Poisson arrivals at one rate."""
    return shaped(lambda _: rate, rate, span_s, mean_s, seed)


def recorded(path: Path) -> Iterator[Arrival]:
    """Yield what a recording has: a CSV with the columns ``arrival_s`` and ``duration_s``, in order of arrival."""
    with path.open(newline="", encoding="utf-8") as file:
        for line, row in zip(count(2), csv.DictReader(file)):
            try:
                yield float(row["arrival_s"]), float(row["duration_s"])
            except (KeyError, TypeError, ValueError) as exc:
                raise SystemExit(f"{path}, line {line}: needs arrival_s and duration_s, in seconds: {exc!r}") from None


def _bursts(at: float) -> float:
    """Quiet, and five seconds of twelve times as much in each minute."""
    return 24.0 if at % 60.0 < 5.0 else 2.0


def _diurnal(at: float) -> float:
    """A day in half an hour: a night with almost nothing, and a peak."""
    return 0.2 + 11.8 * math.sin(math.pi * (at % 1800.0) / 1800.0) ** 2


def _flash_crowd(at: float) -> float:
    """Steady, then within a second fifteen times as much, which fades away over minutes."""
    return 2.0 if at < 600.0 else 2.0 + 28.0 * math.exp(-(at - 600.0) / 120.0)


#: Rates by name, with the highest value of each.
SHAPES: dict[str, tuple[Rate, float]] = {
    "bursts": (_bursts, 24.0),
    "diurnal": (_diurnal, 12.0),
    "flash crowd": (_flash_crowd, 30.0),
}
