from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dirtybus import errors
from dirtybus.cli.complaint import complain, complaining
from dirtybus.cli.exits import code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.DirtyAppError("it raised"), 1),
        (errors.WorkerLost("it died"), 1),
        (errors.BootFailed("it cannot start"), 1),
        (errors.ConfigError("wrong"), 2),
        (errors.MissingExtra("click", "cli", "this"), 2),
        (errors.DirtyConnectionError("nobody there"), 69),
        (errors.QueueFull("full"), 75),
        (errors.DirtyNoWorkersAvailableError("m:C"), 75),
        (errors.DirtyTimeoutError("late"), 124),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: errors.DirtyError, code: int) -> None:
    assert code_of(error) == code
    with pytest.raises(SystemExit) as ended, complaining():
        raise error
    assert ended.value.code == code


def test_ctrl_c_ends_with_130_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, complaining():
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


def test_a_defect_of_ours_is_not_dressed_up() -> None:
    with pytest.raises(ZeroDivisionError), complaining():
        raise ZeroDivisionError


def test_the_traceback_of_the_worker_stands_below_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    complain(errors.DirtyAppError("no fish", traceback="Traceback:\n  at sea", error_type="ValueError"), 1)
    assert capsys.readouterr().err == "dirtybus: ValueError: no fish\n  | Traceback:\n  |   at sea\n"


def test_as_json_an_error_is_one_line_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    complain(errors.QueueFull("full\nof it", retry_after_s=2.0), 75, as_json=True)
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    error = {"code": "queue_full", "message": "full\nof it", "details": {"retry_after_s": 2.0}}
    assert json.loads(written.err) == {"error": error, "exit": 75}


def test_what_is_typed_wrong_ends_with_2() -> None:
    from dirtybus.cli.verbs import dirtybus

    for typed in (["nonsense"], ["scale", "x"], ["call", "m:C"], ["call", "m:C", "a", "--timeout", "soon"]):
        assert CliRunner().invoke(dirtybus, typed).exit_code == 2
