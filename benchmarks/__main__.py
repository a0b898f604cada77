"""``python -m benchmarks``: the rounds, the tables, the JSON. Knows nothing of how anything is measured."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from benchmarks.options import Options, read_options
from benchmarks.report import closing_line, tables
from benchmarks.roster import is_there
from benchmarks.rounds import run_rounds
from benchmarks.rows import Row, summarise

__all__ = ["main"]

_INTERRUPTED = 130
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str]) -> int:
    """Run what ``argv`` asks for; return the exit code: 1 when nobody could be measured, 130 when told to stop."""
    options = read_options(argv)
    for number in _STOPPING:
        signal.signal(number, _stop)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("interrupted; every process that was started has ended", file=sys.stderr)
        return _INTERRUPTED


def _stop(*_: object) -> None:
    """End the run. A second signal must not cut short the ending of its processes, which takes seconds at most."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(options: Options) -> int:
    began_at = time.monotonic()
    print(f"machine: {os.cpu_count()} cores, {_load()} before")
    there = [each for each in options.contestants if is_there(each)]
    for absent in (each for each in options.contestants if each not in there):
        print(f"skipped: {absent.name}, as {absent.needs} is not installed")
    rows = summarise(run_rounds(options.plan, there, tell=_tell))
    if not any(row.contestant == each.name for row in rows for each in there):
        print("nobody could be measured", file=sys.stderr)
        return 1
    print("\n" + tables(rows, is_terminal=sys.stdout.isatty()) + "\n")
    print(f"machine: {_load()} after {time.monotonic() - began_at:.0f} s, {options.plan.rounds} rounds; medians")
    _write(options, rows)
    print(closing_line(rows))
    return 0


def _write(options: Options, rows: Sequence[Row]) -> None:
    if options.json_path is not None:
        text = json.dumps([row.as_mapping() for row in rows], indent=1)
        options.json_path.write_text(text + "\n", encoding="utf-8")


def _load() -> str:
    return "load " + " ".join(f"{load:.2f}" for load in os.getloadavg())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
