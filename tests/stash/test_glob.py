from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirtybus.errors import StashError
from dirtybus.stash.glob import MAX_PATTERN_CHARS, compile_glob


def matches(pattern: str, text: str) -> bool:
    return compile_glob(pattern).fullmatch(text) is not None


@given(st.text("ab-]![*?^\\.\nB", max_size=10), st.text("ab-]![^\\.\nB", max_size=8))
@example("[!]a]", "b")
@example("[]a]", "]")
@example("[a-b-]", "-")
@example("[a-]", "-")
@example("[!a-]", "-")
@example("[b-a]", "a")
@example("[!b-a]", "a")
@example("[^a]", "^")
@example("[--a]", ".")
def test_a_pattern_means_what_fnmatch_says(pattern: str, text: str) -> None:
    assert matches(pattern, text) is fnmatch.fnmatchcase(text, pattern)


def test_case_counts() -> None:
    assert not matches("user:*", "User:1")


def test_a_star_also_takes_line_ends_and_nothing_at_all() -> None:
    assert matches("a*b", "a\n\nb")
    assert matches("a*b", "ab")


def test_many_stars_do_not_multiply_the_time() -> None:
    # small enough that a fault shows as seconds, not as a hang
    pattern, text = "*a" * 4 + "*b", "a" * 300
    began_at = time.process_time()
    assert not matches(pattern, text)
    assert time.process_time() - began_at < 0.5


def test_a_pattern_over_the_limit_is_refused() -> None:
    compile_glob("a" * MAX_PATTERN_CHARS)
    with pytest.raises(StashError, match="at most 1024 characters, not 1025"):
        compile_glob("a" * (MAX_PATTERN_CHARS + 1))
