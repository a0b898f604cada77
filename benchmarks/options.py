"""What the command line asks for. Measures nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plan import FULL, QUICK, SUITES, Plan
from benchmarks.roster import Contestant, named

__all__ = ["Options", "add_common", "read_options", "rounds_of"]

_MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A run: what to measure, whom, and where the rows go."""

    plan: Plan
    contestants: Sequence[Contestant]
    json_path: Path | None


def add_common(parser: argparse.ArgumentParser, *, quick: str, full: str) -> None:
    """Give a parser what every measuring program understands; ``quick`` and ``full`` say what the two sizes are."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help=f"the default: {quick}")
    size.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows there as well")
    parser.add_argument("--rounds", metavar="N", type=rounds_of, help="visit each contestant so often")
    parser.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="only contestants called so; may be repeated"
    )


def read_options(argv: Sequence[str]) -> Options:
    """Read the command line; leaves with a message and code 2 when it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure dirtybus beside its peers, all in the same rounds. Compare the ratios, never the times.",
    )
    add_common(
        parser,
        quick="3 rounds, 1 and 8 callers, within 90 s",
        full="5 rounds, 1, 8 and 64 callers, 1 and 2 workers: 15 minutes",
    )
    parser.add_argument("--suite", choices=SUITES, action="append", default=[], help="only this; may be repeated")
    given = parser.parse_args(argv)
    try:
        contestants = named(given.only)
    except LookupError as exc:
        parser.error(str(exc))
    if given.json is not None and not given.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no directory {given.json.absolute().parent}")
    plan = (FULL if given.full else QUICK).narrowed(rounds=given.rounds, suites=given.suite, contestants=given.only)
    return Options(plan=plan, contestants=contestants, json_path=given.json)


def rounds_of(text: str) -> int:
    """Read how many rounds there are to be."""
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_ROUNDS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MAX_ROUNDS}, not {text!r}")
    return int(text)
