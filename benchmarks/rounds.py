"""The rounds: each contestant visited in a process of its own, in a new order each round, between two raw measures.

Every process it starts is ended and reaped, also when it is interrupted. Knows no statistics.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.plan import Plan
from benchmarks.raw import RAW, Raw, measure_raw
from benchmarks.roster import Contestant
from benchmarks.rows import Finding, Placed
from benchmarks.visit import FOUND, Order

__all__ = ["VisitFailed", "carry_out", "run_rounds", "visit"]

_ROOT = Path(__file__).parent.parent
_GONE_WITHIN_S = 5.0
_STDERR_BYTES = 2_000


class VisitFailed(Exception):
    """A contestant was not measured. The text says which, and how it ended."""


def run_rounds(plan: Plan, contestants: Sequence[Contestant], *, tell: Callable[[str], object]) -> Iterator[Placed]:
    """Yield what each visit finds, as it finds it. A contestant that fails is told of and left out from then on.

    Args:
        plan: what to measure.
        contestants: whom to visit; all there.
        tell: takes a line about what goes on.
    """
    left = list(contestants)
    before = measure_raw()
    yield from _raw_findings(before, plan, 0)
    for number in range(plan.rounds):
        order = random.Random(number).sample(left, len(left))
        for contestant in order:
            tell(f"round {number + 1} of {plan.rounds}: {contestant.name}")
            try:
                found = [each for workers in plan.workers for each in visit(contestant, plan, workers)]
            except VisitFailed as exc:
                tell(f"left out: {exc}")
                left.remove(contestant)
                continue
            after = measure_raw()
            yield from _placed(contestant, number, found, before.between(after))
            before = after
        yield from _raw_findings(before, plan, number + 1)


def visit(contestant: Contestant, plan: Plan, workers: int) -> list[Finding]:
    """Measure one contestant once, in a fresh process that is gone when this returns or raises.

    Raises:
        VisitFailed: it failed, took too long, or left processes behind.
    """
    with tempfile.TemporaryDirectory(prefix="dirtybus-bench-") as place:
        order = Order(
            subject=contestant.subject,
            place=place,
            workers=workers,
            suites=list(plan.suites),
            concurrencies=list(plan.concurrencies),
            chunks=plan.chunks,
            bounds=plan.bounds,
            limit_s=plan.visit_limit_s,
        )
        why = carry_out("benchmarks.visit", [order.to_text()], limit_s=order.limit_s)
        if why is not None:
            raise VisitFailed(f"{contestant.name} with {workers} workers {why}")
        return [Finding(**found) for found in json.loads((Path(place) / FOUND).read_text(encoding="utf-8"))]


def carry_out(module: str, arguments: Sequence[str], *, limit_s: float) -> str | None:
    """Run ``python -m module`` until it and all that it started are gone; return what went wrong, or None."""
    with tempfile.TemporaryFile("w+") as errors:
        why = _run([sys.executable, "-m", module, *arguments], limit_s, errors)
        return None if why is None else why + _last_words(errors)


def _run(command: Sequence[str], limit_s: float, errors: TextIO) -> str | None:
    # a session of its own: what it starts is in its process group, and a terminal's Ctrl-C does not reach it
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,
    )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return f"was not done within {limit_s:g} s and was killed"
    finally:
        had_left = _is_group_gone(process.pid, within_s=_GONE_WITHIN_S if process.returncode is not None else 0.0)
        _end_group(process)
    if code != 0:
        return f"ended with code {code}"
    return None if had_left else "left processes behind, which were killed"


def _is_group_gone(group: int, *, within_s: float) -> bool:
    """Wait until no process of the group is left, looking every 10 ms; False when some are."""
    gives_up_at = time.monotonic() + within_s
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        if time.monotonic() >= gives_up_at:
            return False
        time.sleep(0.01)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group and reap its leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all gone, as they should be
    finally:
        process.wait()
    _is_group_gone(process.pid, within_s=_GONE_WITHIN_S)


def _last_words(errors: TextIO) -> str:
    errors.seek(0)
    text = errors.read()[-_STDERR_BYTES:].strip()
    return f"; it said:\n{text}" if text else ""


def _placed(contestant: Contestant, number: int, found: Sequence[Finding], raw: Raw) -> Iterator[Placed]:
    for finding in found:
        yield Placed(
            contestant=contestant.name,
            against=contestant.against,
            round=number,
            finding=finding,
            raw=raw.of(finding.metric),
        )


def _raw_findings(raw: Raw, plan: Plan, number: int) -> Iterator[Placed]:
    for finding in raw.findings():
        if finding.suite in plan.suites:
            yield Placed(contestant=RAW, against=None, round=number, finding=finding, raw=finding.value)
