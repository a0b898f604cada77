"""What was found of each stash, and how it stands to gunicorn's and to Valkey's of the same round. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from benchmarks.stash_load import Found

__all__ = ["GUNICORN", "VALKEY", "StashRow", "stash_table", "summarise"]

GUNICORN: Final = "gunicorn.dirty worker"
VALKEY: Final = "valkey, redis client"

#: the load, the value's size, keys a call, calls under way
Load = tuple[str, int, int, int]
Rates = Mapping[tuple[int, str, Load], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StashRow:
    """The medians of one load on one contestant. The ratios are of ``ops_per_s``: over 1 is faster than the peer."""

    contestant: str
    load: str
    size_bytes: int
    keys: int
    in_flight: int
    p50_us: float
    ops_per_s: float
    x_gunicorn: float | None
    x_valkey: float | None

    def as_mapping(self) -> dict[str, Any]:
        """Return what goes into the JSON file."""
        return asdict(self)


def summarise(rounds: Sequence[Mapping[str, Sequence[Found]]]) -> list[StashRow]:
    """Return a row for each load of each contestant; ``rounds`` holds what each one found, by name."""
    rates = {(n, name, _load(each)): each["ops_per_s"] for n, name, each in _all(rounds)}
    groups: dict[tuple[str, Load], list[tuple[int, Found]]] = {}
    for n, name, each in _all(rounds):
        groups.setdefault((name, _load(each)), []).append((n, each))
    return [_row(name, load, group, rates) for (name, load), group in groups.items()]


def _all(rounds: Sequence[Mapping[str, Sequence[Found]]]) -> Iterable[tuple[int, str, Found]]:
    return ((n, name, each) for n, found in enumerate(rounds) for name, its in found.items() for each in its)


def _load(found: Found) -> Load:
    return found["load"], found["size_bytes"], found["keys"], found["in_flight"]


def _row(name: str, load: Load, group: Sequence[tuple[int, Found]], rates: Rates) -> StashRow:
    return StashRow(
        contestant=name,
        load=load[0],
        size_bytes=load[1],
        keys=load[2],
        in_flight=load[3],
        p50_us=median(each["p50_us"] for _, each in group),
        ops_per_s=median(each["ops_per_s"] for _, each in group),
        x_gunicorn=_ratio(GUNICORN, load, group, rates),
        x_valkey=_ratio(VALKEY, load, group, rates),
    )


def _ratio(peer: str, load: Load, group: Sequence[tuple[int, Found]], rates: Rates) -> float | None:
    """Return the median of the ratios within each round; None when the peer has no such load.

    A peer without `get_many` is asked for one key after the other, so many keys are set against its single ones.
    """
    one = (load[0].removesuffix("_many"), load[1], 1, load[3])
    ratios = [
        each["ops_per_s"] / theirs
        for n, each in group
        if (theirs := rates.get((n, peer, load)) or rates.get((n, peer, one)))
    ]
    return median(ratios) if ratios else None


def stash_table(rows: Sequence[StashRow]) -> str:
    """Return a table for each load as text."""
    parts = []
    for load in dict.fromkeys((row.in_flight, row.load, row.size_bytes, row.keys) for row in rows):
        its = [row for row in rows if (row.in_flight, row.load, row.size_bytes, row.keys) == load]
        size = f", values of {load[2]:,} bytes" if load[2] else ""
        many = f", {load[3]:,} keys a call" if load[3] > 1 else ""
        parts.append(f"{load[1]}{size}{many}, {load[0]} in flight\n{_table(its)}")
    return "\n\n".join(parts)


def _table(rows: Sequence[StashRow]) -> str:
    lines = [["contestant", "p50 µs", "ops/s", "x gunicorn", "x valkey"]]
    for row in rows:
        ratios = ["" if x is None else f"{x:.2f}" for x in (row.x_gunicorn, row.x_valkey)]
        lines.append([row.contestant, f"{row.p50_us:,.1f}", f"{row.ops_per_s:,.0f}", *ratios])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )
