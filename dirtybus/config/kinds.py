"""What a setting may hold: the exact value (`Kind.settle`) and the friendly forms of it (`Kind.read`).

Knows no setting by name and no place by name: whoever asks adds them to the error.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol

from dirtybus.config.units import read_size, read_span
from dirtybus.errors import ConfigError

__all__ = [
    "Choice",
    "Flag",
    "Kind",
    "Share",
    "Size",
    "Span",
    "TableKind",
    "Text",
    "Texts",
    "Variables",
    "Whole",
    "WholeOrAuto",
    "placed",
    "shown",
    "unknown",
]

_LONGEST_S: Final = 100 * 366 * 86_400.0  # threads refuse to wait for much longer
_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


class Kind(Protocol):
    """What one setting may hold. Both verbs raise `ConfigError`; settling what was settled changes nothing."""

    def settle(self, value: object, /) -> Any:
        """Return the value as the setting keeps it, or say what it must be."""

    def read(self, value: object, /) -> Any:
        """As `settle`, but understand the forms that people and files use."""


def shown(value: object) -> str:
    """Return the value for an error message, cut to a readable length."""
    return _REPR.repr(value)


def placed(place: str, settle: Callable[[object], Any], value: object) -> Any:
    """Return what ``settle`` makes of the value; its error gets the place in front."""
    try:
        return settle(value)
    except ConfigError as exc:
        raise ConfigError(f"{place}: {exc}") from None


def unknown(
    key: object, known: Iterable[str], *, listed: Iterable[str] = (), spelled: Callable[[str], str] = str
) -> ConfigError:
    """Return the error that there is no such setting; it names the nearest one, or all (``listed``)."""
    names = list(known)
    near = difflib.get_close_matches(str(key), names, n=1)
    hint = f"did you mean {spelled(near[0])!r}?" if near else f"there are {', '.join(map(spelled, listed or names))}"
    return ConfigError(f"unknown setting {spelled(str(key))!r}; {hint}")


def _misfit(value: object, wanted: str) -> ConfigError:
    hint = "; the constructor takes exact types, `of` takes text too" if isinstance(value, str) else ""
    return ConfigError(f"{shown(value)} is not {wanted}{hint}")


def _is_no_limit(value: object) -> bool:
    return value is None or (type(value) in (int, float) and value == 0)


def _means_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() == "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number. For a ``limit``, None and 0 mean that there is none."""

    least: int = 1
    most: int | None = None
    limit: bool = False
    wanted: ClassVar[str] = "a whole number"

    def settle(self, value: object) -> int | None:
        if self.limit and _is_no_limit(value):
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _misfit(value, self.wanted)
        if value < self.least or (self.most is not None and value > self.most):
            raise ConfigError(f"{value} is out of range; it must be {self._range()}")
        return int(value)

    def read(self, value: object) -> int | None:
        if self.limit and _means_none(value):
            return None
        return self.settle(self._parse(value) if isinstance(value, str) else value)

    def _parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII):
            raise ConfigError(f"{shown(text)} is not {self.wanted}")
        return int(text)

    def _range(self) -> str:
        most = "" if self.most is None else f" and <= {self.most}"
        return f">= {self.least}{most}{', or 0 for no limit' if self.limit else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeOrAuto(Whole):
    """A whole number, or ``auto``: somebody works it out."""

    def settle(self, value: object) -> int | Literal["auto"] | None:  # type: ignore[override]
        if value == "auto":
            return "auto"
        return super(WholeOrAuto, self).settle(value)

    def read(self, value: object) -> int | Literal["auto"] | None:  # type: ignore[override]
        is_auto = isinstance(value, str) and value.strip().lower() == "auto"
        return "auto" if is_auto else super(WholeOrAuto, self).read(value)

    def _range(self) -> str:
        return f"{super(WholeOrAuto, self)._range()}, or 'auto'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Whole):
    """A size in bytes."""

    wanted: ClassVar[str] = "a whole number of bytes"

    def _parse(self, text: str) -> int:
        return read_size(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of time in seconds. For a ``limit``, None and 0 mean that there is none."""

    least: float = 0.0
    limit: bool = False

    def settle(self, value: object) -> float | None:
        if self.limit and _is_no_limit(value):
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _misfit(value, "a number of seconds")
        if not self.least <= value <= _LONGEST_S:
            raise ConfigError(f"{shown(value)} is out of range; it must be {self._range()}")
        return float(value)

    def read(self, value: object) -> float | None:
        if self.limit and _means_none(value):
            return None
        return self.settle(read_span(value) if isinstance(value, str) else value)

    def _range(self) -> str:
        return "> 0 seconds, or 0 for no limit" if self.limit else f">= {self.least:g} seconds and <= 100 years"


class Share:
    """A part of a whole: more than 0, 1 at most. Text may be ``70%``."""

    def settle(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _misfit(value, "a share, such as 0.7")
        if not 0.0 < value <= 1.0:
            raise ConfigError(f"{shown(value)} is out of range; it must be > 0 and <= 1")
        return float(value)

    def read(self, value: object) -> float:
        if isinstance(value, str) and (found := re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*(%?)", value.strip(), re.ASCII)):
            value = float(found[1]) / (100.0 if found[2] else 1.0)
        return self.settle(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; if ``optional``, None may stand for none of them."""

    words: tuple[str, ...]
    optional: bool = False

    def settle(self, value: object) -> str | None:
        if value is None and self.optional:
            return None
        if not isinstance(value, str) or value not in self.words:
            raise ConfigError(f"{shown(value)} is not one of {', '.join(map(repr, self.words))}")
        return value

    def read(self, value: object) -> str | None:
        return self.settle(value.strip().lower() if isinstance(value, str) else value)


class Flag:
    """Yes or no."""

    _words: Final = MappingProxyType({"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False})

    def settle(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise _misfit(value, "true or false")
        return value

    def read(self, value: object) -> bool:
        return self.settle(self._words.get(value.strip().lower(), value) if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of a given look; ``wanted`` says it in words. A path may stand for it; if ``optional``, None may too."""

    pattern: str
    wanted: str
    optional: bool = False

    def settle(self, value: object) -> str | None:
        if value is None and self.optional:
            return None
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise ConfigError(f"{shown(value)} is not {self.wanted}")
        return value

    def read(self, value: object) -> str | None:
        if self.optional and _means_none(value):
            return None
        return self.settle(str(value) if hasattr(value, "__fspath__") else value)


class Texts:
    """Directories, in order. Text is a list with colons, as in ``PYTHONPATH``."""

    def settle(self, value: object) -> tuple[str, ...]:
        # a bare str would pass for a sequence of its letters
        if not isinstance(value, (list, tuple)) or not all(isinstance(part, str) and part for part in value):
            raise ConfigError(f"{shown(value)} is not a tuple of directories")
        return tuple(value)

    def read(self, value: object) -> tuple[str, ...]:
        if hasattr(value, "__fspath__"):
            value = [value]
        if isinstance(value, str):
            value = [part for part in value.split(":") if part]
        if isinstance(value, (list, tuple)):
            value = [str(part) if hasattr(part, "__fspath__") else part for part in value]
        return self.settle(value)


class TableKind:
    """Settings under one name. ``inner`` has the kinds of those whose keys are known in advance."""

    inner: Mapping[str, Kind] = MappingProxyType({})

    def kind_of(self, key: object) -> Kind:
        """Return what the entry of that key may hold; `ConfigError` if there may be no such entry."""
        if not isinstance(key, str) or key not in self.inner:
            raise unknown(key, self.inner)
        return self.inner[key]

    def entries(self, value: object) -> Mapping[Any, object]:
        """Return the keys and values that a friendly form holds, unread."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"{shown(value)} is not a table of names and values")
        return value

    def build(self, entries: Mapping[str, Any]) -> object:
        """Return the setting's value from entries that were read or settled."""
        return MappingProxyType(dict(entries))

    def settle(self, value: object) -> object:
        entries = self.entries(value).items()
        return self.build({key: placed(str(key), self.kind_of(key).settle, entry) for key, entry in entries})


class _Variable:
    """The value of an environment variable. A number may stand for its text."""

    def settle(self, value: object) -> str:
        # the value may be a secret, so it is not shown
        if not isinstance(value, str) or "\0" in value:
            raise ConfigError(f"the value, of type {type(value).__name__}, is not text without NUL characters")
        return value

    def read(self, value: object) -> str:
        return self.settle(str(value) if type(value) in (int, float) else value)


class Variables(TableKind):
    """The kind of ``env``. Text is a list with commas, ``A=1,B=2``."""

    _kind = _Variable()

    def kind_of(self, key: object) -> Kind:
        if not isinstance(key, str) or not re.fullmatch(r"[^=\0]+", key):
            raise ConfigError(f"{shown(key)} is not the name of an environment variable")
        return self._kind

    def entries(self, value: object) -> Mapping[Any, object]:
        if not isinstance(value, str):
            return super().entries(value)
        pairs = [part.strip().partition("=") for part in value.split(",") if part.strip()]
        for name, sep, _ in pairs:
            if not sep:
                raise ConfigError(f"{shown(name)} has no value; write a list such as 'A=1,B=2'")
        return {name: text for name, _, text in pairs}
