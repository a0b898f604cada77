"""An action's arguments as people type them: JSON where it parses, text where not, ``@file`` for bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dirtybus.errors import ConfigError

__all__ = ["Arguments", "read_arguments", "read_value"]

_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: Returns the bytes of a file; ``-`` is stdin. Raises OSError.
ReadFile = Callable[[str], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What an action is called with."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def read_arguments(words: Sequence[str], given: str | None, read_file: ReadFile) -> Arguments:
    """Return the arguments that the words mean.

    Args:
        words: first the values of positional arguments, then ``key=value``.
        given: JSON of arguments that come before the words: an array of positional or an object of keyword ones.
        read_file: reads what ``@name`` names.

    Raises:
        ConfigError: the words cannot be arguments, ``given`` is no such JSON, or a file cannot be read.
    """
    first = _read_given(given)
    args, kwargs, has_keyword = list(first.args), dict(first.kwargs), False
    for word in words:
        match = _KEYWORD.fullmatch(word)
        if match is None:
            if has_keyword:
                raise ConfigError(f"the value {word!r} comes after a key=value; give the values without a key first")
            args.append(read_value(word, read_file))
            continue
        key, has_keyword = match[1], True
        if key in kwargs:
            raise ConfigError(f"the argument {key!r} is given twice; keep one of the two")
        kwargs[key] = read_value(match[2], read_file)
    return Arguments(args=tuple(args), kwargs=kwargs)


def read_value(word: str, read_file: ReadFile) -> Any:
    """Return the value of one word: the bytes of a file for ``@name``, a JSON value, or the word itself.

    Raises:
        ConfigError: the file cannot be read.
    """
    if word.startswith("@"):
        try:
            return read_file(word[1:])
        except OSError as exc:
            raise ConfigError(
                f"cannot read {word[1:]!r}: {exc.strerror}; text that starts with @ goes in quotes: "
                f"{json.dumps(word)!r}"
            ) from exc
    try:
        return _parse(word)
    except (ValueError, RecursionError):
        return word


def _read_given(given: str | None) -> Arguments:
    if given is None:
        return Arguments()
    try:
        value = _parse(given)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"--args is not JSON: {exc}") from None
    match value:
        case list():
            return Arguments(args=tuple(value))
        case dict():
            return Arguments(kwargs=value)
    raise ConfigError(f"--args must be a JSON array or a JSON object, not {given!r}")


def _parse(text: str) -> Any:
    # Python also takes NaN and Infinity, which are not JSON and may be somebody's name
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
