"""Glob patterns over text, in time linear in the text. Knows no key and no table."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from dirtybus.errors import StashError

__all__ = ["MAX_PATTERN_CHARS", "compile_glob"]

#: Compiling takes longer the longer the pattern is, and it is the owner's loop that waits.
MAX_PATTERN_CHARS = 1024
_STAR = "*"


@functools.lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return the regular expression whose ``fullmatch`` is what ``pattern`` means.

    ``*`` is any text, ``?`` one character, ``[abc]``, ``[a-z]`` one of these and ``[!abc]`` one of the others. Upper
    and lower case differ.

    Raises:
        StashError: the pattern is longer than `MAX_PATTERN_CHARS`.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise StashError(f"a key pattern has at most {MAX_PATTERN_CHARS} characters, not {len(pattern)}; shorten it")
    first, *rest = _pieces(pattern)
    if not rest:
        return re.compile(first, re.DOTALL)
    # atomic groups: without them every further star multiplies the time by the length of the text
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.DOTALL)


def _pieces(pattern: str) -> list[str]:
    """Return what stands between the stars, each as a regular expression."""
    pieces = [""]
    for token in _tokens(pattern):
        if token is _STAR:
            pieces.append("")
        else:
            pieces[-1] += token
    return pieces


def _tokens(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        char = pattern[at]
        # a `]` right after `[` or `[!` is a member, not the end
        end = pattern.find("]", at + 2 + pattern.startswith("[!", at)) if char == "[" else -1
        if end > 0:
            yield _one_of(pattern[at + 1 : end])
            at = end
        elif char == "*":
            yield _STAR
        else:
            yield "." if char == "?" else re.escape(char)
        at += 1


def _one_of(members: str) -> str:
    negated = members.startswith("!")
    ranges = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in _ranges(members[negated:]) if low <= high)
    if not ranges:
        return "." if negated else "(?!)"
    return f"[^{ranges}]" if negated else f"[{ranges}]"


def _ranges(members: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(members):
        is_range = members[at + 1 : at + 2] == "-" and at + 2 < len(members)
        yield members[at], members[at + 2] if is_range else members[at]
        at += 3 if is_range else 1
