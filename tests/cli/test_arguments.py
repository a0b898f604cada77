from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.cli.arguments import Arguments, read_arguments, read_value
from dirtybus.errors import ConfigError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def no_file(name: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory")


def words(*typed: str, given_json: str | None = None) -> Arguments:
    return read_arguments(typed, given_json, no_file)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1),
        ("-2.5", -2.5),
        ("true", True),
        ("null", None),
        ("two", "two"),
        ("", ""),
        ('"3"', "3"),
        ('["a", {"b": 1}]', ["a", {"b": 1}]),
        ("{not json", "{not json"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("[" * 100_000, "[" * 100_000),
        ("über", "über"),
    ],
)
def test_a_value_is_json_where_it_parses_and_text_where_not(word: str, value: Any) -> None:
    assert read_value(word, no_file) == value
    assert type(read_value(word, no_file)) is type(value)


@given(JSON_VALUES)
def test_any_json_value_can_be_typed(value: Any) -> None:
    assert read_value(json.dumps(value), no_file) == value


def test_values_come_before_keywords_and_may_hold_an_equals_sign() -> None:
    assert words("1", "2+2=4", "a=b=c", "_x1=2") == Arguments(args=(1, "2+2=4"), kwargs={"a": "b=c", "_x1": 2})


def test_a_value_after_a_keyword_is_refused() -> None:
    with pytest.raises(ConfigError, match="'late' comes after a key=value"):
        words("a=1", "late")


def test_a_keyword_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a' is given twice"):
        words("a=1", "a=2")
    with pytest.raises(ConfigError, match="'a' is given twice"):
        words("a=1", given_json='{"a": 2}')


def test_an_at_sign_stands_for_the_bytes_of_a_file() -> None:
    found = read_arguments(["@one", "blob=@-"], None, {"one": b"1", "-": b"stdin"}.__getitem__)
    assert found == Arguments(args=(b"1",), kwargs={"blob": b"stdin"})


def test_text_with_an_at_sign_goes_in_quotes_and_the_error_says_so() -> None:
    assert words('"@ada"') == Arguments(args=("@ada",))
    with pytest.raises(ConfigError, match=r"""cannot read 'ada': No such file.* '"@ada"'"""):
        words("@ada")


def test_given_json_comes_before_the_words() -> None:
    assert words("3", given_json="[1, 2]") == Arguments(args=(1, 2, 3))
    assert words("3", "b=4", given_json='{"a": 1}') == Arguments(args=(3,), kwargs={"a": 1, "b": 4})


@pytest.mark.parametrize("given_json", ["nonsense", "1", '"text"', "[NaN]", "[" * 100_000])
def test_given_json_must_be_an_array_or_an_object(given_json: str) -> None:
    with pytest.raises(ConfigError, match="--args"):
        words(given_json=given_json)
