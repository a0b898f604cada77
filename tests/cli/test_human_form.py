from __future__ import annotations

import pytest

from dirtybus.cli.human_form import human_form, span_text


def test_text_is_shown_as_it_is_and_all_else_as_python_writes_it() -> None:
    assert human_form("a 'quoted' text") == "a 'quoted' text"
    assert human_form({"b": (1, b"x"), "a": None}) == "{'b': (1, b'x'), 'a': None}"


def test_a_long_value_takes_several_lines_within_the_width() -> None:
    lines = human_form(list(range(100)), width=40).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(
    ("span_s", "text"),
    [(0, "0s"), (45.9, "45s"), (65, "1m05s"), (3_600, "1h00m"), (8_040, "2h14m"), (90_000, "1d01h")],
)
def test_a_span_has_its_two_largest_units(span_s: float, text: str) -> None:
    assert span_text(span_s) == text
