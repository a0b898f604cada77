from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.options import read_options
from benchmarks.plan import FULL, QUICK, SUITES
from benchmarks.roster import CONTESTANTS, Contestant, is_there


def test_a_run_is_quick_unless_asked_otherwise() -> None:
    options = read_options([])
    assert (options.plan, options.json_path) == (QUICK, None)
    assert read_options(["--quick"]).plan == QUICK
    assert read_options(["--full"]).plan == FULL


def test_a_quick_run_has_three_rounds_and_every_suite() -> None:
    assert QUICK.rounds >= 3
    assert tuple(QUICK.suites) == SUITES
    assert 64 in FULL.concurrencies


def test_a_run_can_be_narrowed() -> None:
    options = read_options(["--rounds", "7", "--suite", "calls", "--suite", "memory", "--only", "In Process"])
    assert (options.plan.rounds, options.plan.suites) == (7, ("calls", "memory"))
    assert [each.name for each in options.contestants] == ["dirtybus in process"]


def test_without_names_everybody_takes_part() -> None:
    assert tuple(read_options([]).contestants) == CONTESTANTS


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--rounds", "0"], "whole number from 1 to 100, not '0'"),
        (["--rounds", "many"], "not 'many'"),
        (["--suite", "speed"], "invalid choice: 'speed'"),
        (["--only", "celery"], "no contestant is called 'celery'; there are: dirtybus in process,"),
        (["--quick", "--full"], "not allowed with"),
        (["--json", "/no/such/place/rows.json"], "there is no directory /no/such/place"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        read_options(argv)
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_rows_may_go_to_a_new_file(tmp_path: Path) -> None:
    assert read_options(["--json", str(tmp_path / "rows.json")]).json_path == tmp_path / "rows.json"


@pytest.mark.parametrize("needs", ["no_such_module_anywhere", "no_such_module_anywhere.inside", "json.no_such_part"])
def test_a_contestant_whose_module_is_missing_is_absent(needs: str) -> None:
    assert not is_there(Contestant(name="a", subject="a:A", needs=needs, against="b"))
    assert is_there(Contestant(name="a", subject="a:A", needs="json.decoder", against="b"))
