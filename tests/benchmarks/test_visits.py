"""A visit is a process of its own: what it finds comes back, and nothing of it is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load import call_async, call_sync, read_sync
from benchmarks.plan import QUICK, Bounds
from benchmarks.raw import RAW, measure_raw
from benchmarks.roster import Contestant
from benchmarks.rounds import VisitFailed, run_rounds, visit
from benchmarks.visit import Order
from tests.benchmarks.subjects import PID_FILE

SHORT = replace(QUICK, rounds=2, bounds=Bounds(calls=50, span_s=5.0), chunks=20, visit_limit_s=30.0)


def contestant(name: str) -> Contestant:
    return Contestant(name=name, subject=f"tests.benchmarks.subjects:{name}", needs="json", against="Answering")


def test_a_load_ends_after_its_calls() -> None:
    burst = call_sync([int, int], Bounds(calls=10, span_s=60.0))
    assert len(burst.latencies_us) == 10
    assert burst.calls_per_s > 0
    assert 0 <= burst.p50_us <= burst.p99_us


async def test_a_load_ends_after_its_time() -> None:
    async def call() -> None:
        return None

    burst = await call_async([call], Bounds(calls=10**9, span_s=0.01))
    assert len(burst.latencies_us) < 10**9


def test_a_call_that_fails_ends_its_load_with_the_error() -> None:
    with pytest.raises(ZeroDivisionError):
        call_sync([int, lambda: 1 // 0], Bounds(calls=10**9, span_s=60.0))


def test_a_stream_of_another_length_is_no_measure() -> None:
    assert read_sync(iter(range(5)), 5).chunks == 5
    with pytest.raises(AssertionError, match="5 chunks gave 4"):
        read_sync(iter(range(4)), 5)


def test_the_raw_measure_leaves_no_child() -> None:
    raw = measure_raw()
    assert 0 < raw.p50_us <= raw.p99_us
    assert raw.chunks_per_s > 0
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_an_order_survives_its_way_to_the_visit() -> None:
    order = Order(
        subject="m:S", place="/tmp/x", workers=2, suites=["calls"], concurrencies=[1], chunks=3,
        bounds=Bounds(calls=1, span_s=2.0), limit_s=4.0,
    )  # fmt: skip
    assert Order.from_text(order.to_text()) == order


@pytest.mark.parametrize("name", ["Answering", "AnsweringAsync"])
def test_a_visit_brings_back_what_it_found(name: str) -> None:
    found = visit(contestant(name), SHORT, workers=3)
    keys = {(each.suite, each.metric, tuple(each.params.items())) for each in found}
    assert ("start", "ready_ms", (("workers", 3),)) in keys
    for concurrency in SHORT.concurrencies:
        assert ("calls", "p50_us", (("workers", 3), ("concurrency", concurrency))) in keys
    assert any(each.suite == "stream" for each in found) == (name == "Answering")


def test_only_the_suites_that_are_wanted_are_measured() -> None:
    found = visit(contestant("Answering"), replace(SHORT, suites=("stream",)), workers=1)
    assert {each.suite for each in found} == {"stream"}


def test_a_contestant_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(VisitFailed, match=r"(?s)Failing with 1 workers ended with code 1; it said:.*no callers today"):
        visit(contestant("Failing"), SHORT, workers=1)


def test_a_contestant_that_hangs_is_killed_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    monkeypatch.setenv(PID_FILE, str(note))
    with pytest.raises(VisitFailed, match="was not done within 3 s and was killed"):
        visit(contestant("Hanging"), replace(SHORT, visit_limit_s=3.0), workers=1)
    if note.exists():  # on a very busy machine it may not have come that far
        assert not is_running(int(note.read_text(encoding="utf-8")))


def test_a_contestant_that_fails_is_left_out_and_the_others_go_on() -> None:
    told: list[str] = []
    plan = replace(SHORT, suites=("calls",))
    placed = list(run_rounds(plan, [contestant("Failing"), contestant("Answering")], tell=told.append))
    assert {each.contestant for each in placed} == {RAW, "Answering"}
    assert sum(line.startswith("left out: Failing") for line in told) == 1
    assert {each.round for each in placed if each.contestant == "Answering"} == {0, 1}


def test_an_impatient_interrupt_ends_the_run_and_says_so() -> None:
    program = [sys.executable, "-m", "benchmarks", "--only", "executor", "--suite", "stream"]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline() == "round 1 of 3: ProcessPoolExecutor\n"
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
        assert run.stderr.read().endswith("interrupted; every process that was started has ended\n")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
