from __future__ import annotations

from pathlib import Path

import pytest

from scripts.lengths import FUNCTION_LINES, FUNCTION_LINES_MAX, MODULE_LINES, MODULE_LINES_MAX, main, measure


def function(lines: int, *, head: str = "", docstring: str = "") -> str:
    body = "\n".join("    x = 1" for _ in range(lines - 1))
    return f"def long_one():{head}\n{docstring}{body}\n"


def module(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_function_is_measured_from_def_to_its_last_line(tmp_path: Path) -> None:
    _, found = measure(module(tmp_path, function(7)))
    assert found.lines == 7
    assert found.place.endswith("module.py:1 long_one")


def test_a_docstring_does_not_count(tmp_path: Path) -> None:
    text = function(7, docstring='    """One.\n\n    Two.\n    """\n')
    assert measure(module(tmp_path, text))[1].lines == 7


def test_a_method_and_a_function_inside_a_function_are_measured_too(tmp_path: Path) -> None:
    text = "class A:\n    def b(self):\n        def c():\n            return 1\n        return c\n"
    assert [length.lines for length in measure(module(tmp_path, text))[1:]] == [4, 2]


@pytest.mark.parametrize(
    ("lines", "is_long", "is_fault"),
    [
        (FUNCTION_LINES, False, False),
        (FUNCTION_LINES + 1, True, False),
        (FUNCTION_LINES_MAX, True, False),
        (FUNCTION_LINES_MAX + 1, True, True),
    ],
)
def test_a_function_over_the_aim_is_long_and_over_the_limit_a_fault(
    tmp_path: Path, lines: int, is_long: bool, is_fault: bool
) -> None:
    found = measure(module(tmp_path, function(lines)))[1]
    assert (found.is_long, found.is_fault) == (is_long, is_fault)


def test_a_reason_on_the_def_line_excuses_a_function_and_is_shown(tmp_path: Path) -> None:
    found = measure(module(tmp_path, function(FUNCTION_LINES_MAX + 1, head="  # long: routes only")))[1]
    assert not found.is_fault
    assert "because routes only" in str(found)


def test_a_reason_inside_the_body_excuses_nothing(tmp_path: Path) -> None:
    text = function(FUNCTION_LINES_MAX) + "    y = 1  # long: hidden\n"
    assert measure(module(tmp_path, text))[1].is_fault


def test_a_reason_in_a_string_excuses_nothing(tmp_path: Path) -> None:
    text = 'X = "# long: no reason"\n' + "x = 1\n" * MODULE_LINES_MAX
    assert measure(module(tmp_path, text))[0].is_fault


def test_a_reason_near_the_top_excuses_a_module(tmp_path: Path) -> None:
    text = "# long: one table that is read as a whole\n" + "x = 1\n" * MODULE_LINES_MAX
    assert not measure(module(tmp_path, text))[0].is_fault


def test_the_report_fails_only_when_something_is_too_long_without_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module(tmp_path, "x = 1\n" * (MODULE_LINES + 1))
    assert main([str(tmp_path)]) == 0
    assert "long" in capsys.readouterr().out
    module(tmp_path, "x = 1\n" * (MODULE_LINES_MAX + 1))
    assert main([str(tmp_path)]) == 1
    assert "FAULT" in capsys.readouterr().out
