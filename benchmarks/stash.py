"""``python -m benchmarks.stash``: shared state from workers and clients, beside gunicorn's stash and a local Valkey."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import add_common
from benchmarks.rounds import VisitFailed, carry_out
from benchmarks.stash_load import Found, StashPlan
from benchmarks.stash_rows import stash_table, summarise
from benchmarks.subjects.stashes import STASHES
from benchmarks.visit import FOUND

__all__ = ["main", "missing_of", "visit"]

QUICK = StashPlan(calls=20_000, span_s=0.25)
FULL = StashPlan(calls=200_000, span_s=1.5)
_VISIT_LIMIT_S = 120.0


def main(argv: Sequence[str]) -> int:
    """Visit every contestant in each round, in another order each time; return 1 when one could not be visited."""
    given = _read(argv)
    left = [name for name in STASHES if any(part.casefold() in name.casefold() for part in given.only or [""])]
    for name in [name for name in left if missing_of(STASHES[name][1])]:
        print(f"skipped: {name}, as {' and '.join(missing_of(STASHES[name][1]))} is not installed", flush=True)
        left.remove(name)
    print(f"machine: {os.cpu_count()} cores, {_load()} before", flush=True)
    began_at, failed, rounds = time.monotonic(), False, []
    count = given.rounds or (5 if given.full else 3)
    for number in range(count):
        found: dict[str, list[Found]] = {}
        for name in random.Random(number).sample(left, len(left)):
            print(f"round {number + 1} of {count}: {name}", file=sys.stderr, flush=True)
            try:
                found[name] = visit(name, FULL if given.full else QUICK)
            except VisitFailed as exc:
                failed = True
                left.remove(name)
                print(f"left out: {exc}", file=sys.stderr, flush=True)
        rounds.append({name: found[name] for name in STASHES if name in found})
    rows = summarise(rounds)
    print("\n" + stash_table(rows) + "\n")
    print(f"machine: {_load()} after {time.monotonic() - began_at:.0f} s, {count} rounds; medians")
    if given.json is not None:
        given.json.write_text(json.dumps([row.as_mapping() for row in rows], indent=1) + "\n", encoding="utf-8")
    return int(failed or not rows)


def visit(name: str, plan: StashPlan) -> list[Found]:
    """Measure one contestant once, in a fresh process that is gone when this returns or raises.

    Raises:
        VisitFailed: it failed, took too long, or left processes behind.
    """
    with tempfile.TemporaryDirectory(prefix="dirtybus-bench-") as place:
        order = [name, place, json.dumps(plan.as_mapping())]
        why = carry_out("benchmarks.stash_visit", order, limit_s=_VISIT_LIMIT_S)
        if why is not None:
            raise VisitFailed(f"{name} {why}")
        found: list[Found] = json.loads((Path(place) / FOUND).read_text(encoding="utf-8"))
        return found


def missing_of(modules: Sequence[str]) -> list[str]:
    """Return those of ``modules`` that are not installed."""
    return [module for module in modules if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _load() -> str:
    return "load " + " ".join(f"{load:.2f}" for load in os.getloadavg())


def _read(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stash",
        description="Measure shared state: dirtybus beside gunicorn.dirty and Valkey. Compare ratios, never times.",
    )
    add_common(parser, quick="3 rounds, about a minute and a half", full="5 rounds of longer loads: ten minutes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
