"""``python -m benchmarks.faults``: workers are killed under load, and what becomes of the calls, beside other pools."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fault_rows import FaultRow, fault_table
from benchmarks.fault_visit import ROW
from benchmarks.subjects.fault_peers import PEERS

__all__ = ["main", "visit"]

_ROOT = Path(__file__).parent.parent
#: starting, the last calls' limit, and finding out whether it still works
_REST_S = 60.0


def main(argv: Sequence[str]) -> int:
    """Visit one contestant after the other; return 1 when one could not be visited."""
    given = _read(argv)
    rows: list[FaultRow] = []
    failed = False
    for name, (_, needs) in PEERS.items():
        if not any(part.casefold() in name.casefold() for part in given.only or [""]):
            continue
        if not _is_there(needs):
            print(f"skipped: {name}, as {needs} is not installed", flush=True)
            continue
        print(f"{name}: {given.seconds:g} s", file=sys.stderr, flush=True)
        try:
            rows.append(visit(name, given.seconds, given.seed))
        except RuntimeError as exc:
            failed = True
            print(f"left out: {name}: {exc}", file=sys.stderr, flush=True)
    print(fault_table(rows))
    for row in rows:
        if row.errors:
            print(f"{row.contestant}: lost to {', '.join(f'{name} x {n}' for name, n in row.errors.items())}")
    if given.json is not None:
        given.json.write_text(json.dumps([row.as_mapping() for row in rows], indent=1) + "\n", encoding="utf-8")
    return int(failed or not rows)


def visit(name: str, seconds: float, seed: int) -> FaultRow:
    """Shoot at one contestant, in a fresh process that is gone afterwards with all that it started.

    Raises:
        RuntimeError: it failed or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="dirtybus-faults-") as place, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fault_visit", name, str(seconds), str(seed), place],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
        try:
            process.wait(seconds + _REST_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"not done within {seconds + _REST_S:g} s") from None
        finally:
            _end_group(process)
        found = Path(place) / ROW
        if not found.exists():
            errors.seek(0)
            raise RuntimeError(f"ended with code {process.returncode}; it said:\n{errors.read()[-2000:]}")
        return FaultRow(**json.loads(found.read_text(encoding="utf-8")))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the session that we started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _read(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults",
        description="Kill workers under load, and count what becomes of the calls: dirtybus beside other pools.",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long each is shot at (%(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed kills at the same moments")
    parser.add_argument("--only", metavar="NAME", action="append", help="only contestants called so; may be repeated")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows there as well")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
