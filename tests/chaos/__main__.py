"""``python -m tests.chaos``: one storm, its tables, and the closing line. Exit code 0 only when it was clean."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dirtybus import log
from tests.chaos.faults import FAULTS
from tests.chaos.report import as_mapping, closing_line, tables
from tests.chaos.storm import Storm, StormReport, rage

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Let the storm pass that ``argv`` asks for; return 0 when every promise was kept, else 1."""
    given = _read(argv)
    without = frozenset(given.without)
    storm = Storm(seconds=given.seconds, seed=given.seed, without=without, elastic=given.elastic)
    place = Path(tempfile.mkdtemp(prefix="dirtybus-storm-"))
    log.logger.remove()
    log.logger.add(place / "storm.log", level="DEBUG", format="{time:HH:mm:ss.SSS} {level} {message}")
    report = asyncio.run(rage(storm, place, tell=_progress_of(storm)))
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    print(tables(report))
    if given.json is not None:
        given.json.write_text(json.dumps(as_mapping(report), indent=1) + "\n", encoding="utf-8")
    _leave(report, place)
    print(closing_line(report))
    return 0 if report.is_clean else 1


def _read(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/storm", description="Kill workers under load, and see that every call keeps its promise."
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="the same seed, the same faults")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the findings there as well")
    parser.add_argument("--without", choices=sorted(FAULTS), action="append", default=[], help="leave out this fault")
    parser.add_argument("--elastic", action="store_true", help="over a pool that grows, shrinks and recycles by itself")
    return parser.parse_args(argv)


def _progress_of(storm: Storm) -> Progress:
    return Progress(storm.seconds, is_shown=sys.stderr.isatty())


class Progress:
    """One line in a terminal, written over again and again; nothing elsewhere."""

    def __init__(self, seconds: float, *, is_shown: bool) -> None:
        self._seconds = seconds
        self._is_shown = is_shown

    def __call__(self, passed_s: float, deaths: int, calls: int) -> None:
        if self._is_shown:
            text = f"{passed_s:.0f} s of {self._seconds:.0f}: {deaths} workers died, {calls} calls from inside"
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()


def _leave(report: StormReport, place: Path) -> None:
    """Remove what the storm wrote, unless somebody must look into it."""
    log.logger.remove()
    if report.is_clean:
        shutil.rmtree(place)
    else:
        print(f"log, journal and records are kept in {place}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
