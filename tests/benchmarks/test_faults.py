"""What becomes of calls while workers are killed is counted as it was; one contestant is really shot at."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from benchmarks import faults
from benchmarks.fault_rows import FaultRow, Kill, Told, fault_row, fault_table

Outcome = Literal["answered", "failed", "hung", "wrong"]


def told(token: str, outcome: Outcome = "answered", *, at: float = 1.0, note: str = "") -> Told:
    return Told(token=token, told_at=at, outcome=outcome, note=note)


def row_of(calls: list[Told], journal: str = "", *kills: tuple[float, int]) -> FaultRow:
    """Count; the journal is written as ``begin a 7; end a 7``."""
    lines = journal.split("; ") if journal else []
    shots = [Kill(at=at, pid=pid) for at, pid in kills]
    return fault_row("x", calls, lines, shots, began_at=0.0, ended_at=10.0, works_afterwards=True)


def test_a_call_whose_worker_was_killed_under_it_is_no_lost_one() -> None:
    row = row_of([told("a", "failed"), told("b")], "begin a 7; begin b 8; end b 8", (1.0, 7))
    assert (row.calls, row.answered, row.died_in_worker, row.lost, row.busy_kills) == (2, 1, 1, 0, 1)


def test_a_call_that_was_done_when_its_worker_was_killed_is_no_lost_one() -> None:
    row = row_of([told("a", "failed")], "begin a 7; end a 7", (1.0, 7))
    assert (row.died_in_worker, row.lost, row.busy_kills) == (1, 0, 0)


def test_a_call_that_failed_while_another_worker_was_killed_is_lost() -> None:
    row = row_of([told("a", "failed", note="Broken"), told("b", "failed")], "begin a 8; begin b 7", (1.0, 7))
    assert (row.died_in_worker, row.lost, row.errors) == (1, 1, {"Broken": 1})


def test_an_idle_worker_that_is_killed_explains_one_unbegun_call_right_after_and_no_more() -> None:
    calls = [told("a", "failed", at=2.1), told("b", "failed", at=2.2), told("c", "failed", at=5.0)]
    row = row_of(calls, "", (2.0, 7))
    assert (row.kills, row.busy_kills, row.died_in_worker, row.lost) == (1, 0, 1, 2)


def test_a_second_begin_is_a_doubled_run() -> None:
    assert row_of([told("a")], "begin a 7; begin a 8; end a 8", (1.0, 7)).doubled == 1


def test_hung_and_wrong_calls_are_counted_apart() -> None:
    row = row_of([told("a", "hung"), told("b", "wrong"), told("c")])
    assert (row.hung, row.wrong, row.answered, row.lost) == (1, 1, 1, 0)


def test_a_stall_is_the_longest_span_without_an_answer() -> None:
    assert row_of([told("a", at=1.0), told("b", "failed", at=5.0), told("c", at=6.5)]).longest_stall_ms == 5500
    assert row_of([told("a", "failed")]).longest_stall_ms == 10_000


def test_the_table_has_a_line_for_each_contestant() -> None:
    table = fault_table([row_of([told("a")]), row_of([told("a", "hung")])]).splitlines()
    assert table[0].split()[:3] == ["contestant", "kills", "calls"]
    assert [line.split()[-1] for line in table[1:]] == ["yes", "yes"]
    assert len({len(line) for line in table}) == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_contestant_is_shot_at_and_its_calls_add_up() -> None:
    row = faults.visit("dirtybus in process", 2.0, seed=1)
    assert row.kills >= 2
    assert row.answered + row.died_in_worker == row.calls > 20
    assert (row.lost, row.doubled, row.wrong, row.hung, row.works_afterwards) == (0, 0, 0, 0, True)


def test_what_is_not_installed_is_skipped_with_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visited: list[str] = []

    def visit(name: str, *_: Any) -> FaultRow:
        visited.append(name)
        return row_of([told("a")])

    monkeypatch.setattr(faults, "_is_there", lambda module: module != "loky")
    monkeypatch.setattr(faults, "visit", visit)
    assert faults.main(["--only", "loky", "--only", "in process"]) == 0
    assert visited == ["dirtybus in process"]
    assert "skipped: loky, as loky is not installed" in capsys.readouterr().out
    assert faults.main(["--only", "nobody"]) == 1
