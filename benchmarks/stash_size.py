"""``python -m benchmarks.stash_size``: a million entries: what each takes, and how long the loop is held by them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.options import rounds_of
from benchmarks.rounds import VisitFailed, carry_out
from benchmarks.stash import missing_of
from benchmarks.stash_size_load import Sizes
from benchmarks.subjects.stash_sizes import SIZES
from benchmarks.visit import FOUND

__all__ = ["main", "size_table"]

_VISIT_LIMIT_S: Final = 300.0
_TITLES: Final = {
    "rss_bytes_per_entry": "RSS bytes for an entry",
    "pss_bytes_per_entry": "PSS bytes for an entry",
    "fill_entries_per_s": "filled, entries/s",
    "scan_keys_per_s": "scanned, keys/s",
    "idle_lag_ms": "worst lag idle, ms",
    "fill_lag_ms": "worst lag while it is filled, ms",
    "scan_lag_ms": "worst lag while it is scanned, ms",
    "clear_lag_ms": "worst lag while it is cleared, ms",
    "expiry_lag_ms": "worst lag while all expire, ms",
}


def main(argv: Sequence[str]) -> int:
    """Fill one contestant after the other; return 1 when one could not be."""
    given = _read(argv)
    failed, found = False, {}
    for name, (_, needs) in SIZES.items():
        if not any(part.casefold() in name.casefold() for part in given.only or [""]):
            continue
        if missing := missing_of(needs):
            print(f"skipped: {name}, as {' and '.join(missing)} is not installed", flush=True)
            continue
        print(f"{name}: {given.rounds} x {given.entries:,} entries", file=sys.stderr, flush=True)
        try:
            found[name] = _medians([visit(name, given.entries) for _ in range(given.rounds)])
        except VisitFailed as exc:
            failed = True
            print(f"left out: {exc}", file=sys.stderr, flush=True)
    print(f"machine: {os.cpu_count()} cores, load {' '.join(f'{load:.2f}' for load in os.getloadavg())}")
    print(f"{given.entries:,} entries, medians of {given.rounds} rounds\n{size_table(found)}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(failed or not found)


def visit(name: str, entries: int) -> Sizes:
    """Fill one contestant once, in a fresh process that is gone when this returns or raises.

    Raises:
        VisitFailed: it failed, took too long, or left processes behind.
    """
    with tempfile.TemporaryDirectory(prefix="dirtybus-bench-") as place:
        order = ["--visit", name, "--place", place, "--entries", str(entries)]
        why = carry_out("benchmarks.stash_size", order, limit_s=_VISIT_LIMIT_S)
        if why is not None:
            raise VisitFailed(f"{name} {why}")
        found: Sizes = json.loads((Path(place) / FOUND).read_text(encoding="utf-8"))
        return found


def size_table(found: Mapping[str, Sizes]) -> str:
    """Return the findings as text: a line for each measure, a column for each contestant."""
    lines = [["", *found]]
    for measure, title in _TITLES.items():
        if any(measure in sizes for sizes in found.values()):
            lines.append([title, *(_number(sizes.get(measure)) for sizes in found.values())])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join([title.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))])
        for title, *cells in lines
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _medians(rounds: Sequence[Sizes]) -> Sizes:
    return {measure: median(sizes[measure] for sizes in rounds) for measure in rounds[0]}


def _carry_out(name: str, place: Path, entries: int) -> int:
    """Measure in this process, and leave what was found in the place."""
    measure, _ = SIZES[name]
    (place / FOUND).write_text(json.dumps(measure(place, entries)), encoding="utf-8")
    return 0


def _read(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stash_size", description=__doc__)
    parser.add_argument("--entries", metavar="N", type=int, default=1_000_000, help="how many (%(default)s)")
    parser.add_argument("--quick", dest="entries", action="store_const", const=100_000, help="a tenth of them")
    parser.add_argument("--rounds", metavar="N", type=rounds_of, default=1, help="fill each so often (%(default)s)")
    parser.add_argument("--only", metavar="NAME", action="append", help="only contestants called so; may be repeated")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the findings there as well")
    # what a fresh process is told by the one that asks for it
    parser.add_argument("--visit", metavar="NAME", choices=SIZES, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    asked = _read(sys.argv[1:])
    if asked.visit is not None:
        sys.exit(_carry_out(asked.visit, asked.place, asked.entries))
    sys.exit(main(sys.argv[1:]))
