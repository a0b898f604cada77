from __future__ import annotations

import json
import math
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.cli.human_form import human_form
from dirtybus.cli.json_form import json_form, json_text

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as users' old code makes them


class Colour(Enum):
    RED = 1


@dataclass
class Box:
    name: str
    size: tuple[int, int]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, [2.5, None]), [1, [2.5, None]]),
        ({"a": True}, {"a": True}),
        ({1: "one", "1": "text"}, [[1, "one"], ["1", "text"]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (b"\x00\xff", {"base64": "AP8="}),
        (bytearray(b"x"), {"base64": "eA=="}),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (datetime(2030, 1, 2, 3, tzinfo=UTC), "2030-01-02T03:00:00+00:00"),
        (date(2030, 1, 2), "2030-01-02"),
        (timedelta(minutes=1.5), 90.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (1 + 2j, "(1+2j)"),
        (Colour.RED, "RED"),
        (Box("b", (1, 2)), {"name": "b", "size": [1, 2]}),
        (Point(1, 2), [1, 2]),
        (10**30, 10**30),
    ],
)
def test_what_json_lacks_has_one_documented_form(value: Any, form: Any) -> None:
    assert json_form(value) == form
    assert json.loads(json_text(value)) == form


def test_an_int_that_python_does_not_write_in_decimal_is_written_in_hexadecimal() -> None:
    huge = 1 << 20_000
    assert json_form([huge]) == [hex(huge)]
    assert human_form([huge]) == f'["{hex(huge)}"]'


def test_arrays_become_lists() -> None:
    numpy = pytest.importorskip("numpy")
    assert json_form({"m": numpy.eye(2), "n": numpy.float32(0.5)}) == {"m": [[1.0, 0.0], [0.0, 1.0]], "n": 0.5}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)


def refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


@given(VALUES)
def test_any_value_makes_one_line_that_parses(value: Any) -> None:
    text = json_text(value)
    json.loads(text, parse_constant=refuse)
    assert text.isascii()
    assert "\n" not in text


@given(st.sets(st.integers() | st.text()))
def test_the_same_set_makes_the_same_text(values: set[Any]) -> None:
    backwards = sorted(values, key=repr, reverse=True)
    assert json_text(values) == json_text(set(backwards))
