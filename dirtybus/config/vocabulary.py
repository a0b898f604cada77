"""The names that settings go by, and the reading of whole mappings. Which settings there are stands on the classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, get_type_hints

from dirtybus.config.kinds import Kind, TableKind, placed, shown, unknown
from dirtybus.errors import ConfigError

__all__ = ["Fields", "Found", "Vocabulary", "settle_fields"]

T = TypeVar("T")
_UNIT_SUFFIXES: Final = ("_s", "_bytes")
_KINDS: Final[dict[type[Any], Mapping[str, Kind]]] = {}


def _kinds_of(owner: type[Any]) -> Mapping[str, Kind]:
    """Return each field's kind: the last thing in its ``Annotated[…]``."""
    if owner not in _KINDS:  # reading annotations takes a millisecond
        hints = get_type_hints(owner, include_extras=True)
        _KINDS[owner] = MappingProxyType({name: hint.__metadata__[-1] for name, hint in hints.items()})
    return _KINDS[owner]


def settle_fields(instance: object) -> None:
    """Check every field of a new frozen instance, and keep each value in its one form.

    Raises:
        ConfigError: a field does not fit; the message names it, its value and what it must be.
    """
    for name, kind in _kinds_of(type(instance)).items():
        object.__setattr__(instance, name, placed(name, kind.settle, getattr(instance, name)))


class Fields(TableKind):
    """The kind of a setting that is a settings class itself."""

    def __init__(self, owner: type) -> None:
        self._owner = owner
        self.inner = _kinds_of(owner)

    def settle(self, value: object) -> object:
        if not isinstance(value, self._owner):
            raise ConfigError(f"{shown(value)} is not a {self._owner.__name__}")
        return value

    def entries(self, value: object) -> Mapping[Any, object]:
        if isinstance(value, self._owner):
            return {name: getattr(value, name) for name in self.inner}
        return super().entries(value)

    def build(self, entries: Mapping[str, Any]) -> object:
        return self._owner(**entries)


@dataclass(frozen=True, slots=True)
class Found:
    """One value as it was read, and where it stood."""

    value: object
    place: str


@dataclass(frozen=True, slots=True)
class _Reader:
    """One reading of one mapping: what was found so far, and how its source spells a name."""

    source: str
    spelled: Callable[[str], str]
    found: dict[str, Found]

    def place_of(self, key: str) -> str:
        return f"{self.spelled(key)} ({self.source})"

    def take(self, name: str, kind: Kind, key: str, value: object) -> None:
        place = self.place_of(key)
        if name in self.found:
            raise ConfigError(f"{place}: {self.found[name].place} sets the same; keep one of the two")
        self.found[name] = Found(placed(place, kind.read, value), place)


class Vocabulary(Generic[T]):
    """All names by which the settings of a class may be given.

    Args:
        owner: a settings class; every field is ``Annotated`` with its kind.
        also: more names, each with the setting it stands for; one inside a table as ``table.name``.
    """

    def __init__(self, owner: type[T], also: Mapping[str, str]) -> None:
        self._owner = owner
        self._kinds = _kinds_of(owner)
        self._names = dict(self._spellings()) | dict(also)

    def read(self, mapping: object, *, source: str, spelled: Callable[[str], str] = str) -> dict[str, Found]:
        """Return what a mapping sets, by the settings' own names; one inside a table as ``table.name``.

        Args:
            mapping: names, in any spelling known here, and values in any friendly form.
            source: where the mapping comes from, for messages.
            spelled: how that source spells a name, for messages.

        Raises:
            ConfigError: an unknown name, a value that does not fit, or the same setting twice.
        """
        reader = _Reader(source, spelled, {})
        if not isinstance(mapping, Mapping):
            raise ConfigError(f"{source}: {shown(mapping)} is not a table of settings")
        for key, value in mapping.items():
            self._read_one(reader, key, value)
        return reader.found

    def build(self, found: Mapping[str, Found]) -> T:
        """Make the settings from what was found; what was not found has its default."""
        values: dict[str, Any] = {}
        for field, kind in self._kinds.items():
            if isinstance(kind, TableKind):
                inside = {n.removeprefix(f"{field}."): f.value for n, f in found.items() if n.startswith(f"{field}.")}
                values |= {field: kind.build(inside)} if inside else {}
            elif field in found:
                values[field] = found[field].value
        return self._owner(**values)

    def rows(self, settings: T) -> Iterator[tuple[str, object]]:
        """Give each setting's own name and its value, those of tables one by one."""
        for field, kind in self._kinds.items():
            value = getattr(settings, field)
            if not isinstance(kind, TableKind):
                yield field, value
                continue
            for key, entry in kind.entries(value).items():
                yield f"{field}.{key}", entry

    def _spellings(self) -> Iterator[tuple[str, str]]:
        for field, kind in self._kinds.items():
            yield from ((spelling, field) for spelling in _spell(field))
            if isinstance(kind, TableKind):
                for key in kind.inner:
                    yield from ((f"{field}_{spelling}", f"{field}.{key}") for spelling in _spell(key))

    def _read_one(self, reader: _Reader, key: object, value: object) -> None:
        name = self._names.get(key) if isinstance(key, str) else None
        if name is None:
            raise ConfigError(
                f"{reader.source}: {unknown(key, self._names, listed=self._kinds, spelled=reader.spelled)}"
            )
        field, _, inner = name.partition(".")
        kind = self._kinds[field]
        if not isinstance(kind, TableKind):
            reader.take(name, kind, str(key), value)
        elif inner:
            reader.take(name, kind.inner[inner], str(key), value)
        else:
            self._read_table(reader, field, kind, str(key), value)

    def _read_table(self, reader: _Reader, field: str, table: TableKind, key: str, value: object) -> None:
        inner_names = {spelling: inner for inner in table.inner for spelling in _spell(inner)}
        for inner_key, entry in placed(reader.place_of(key), table.entries, value).items():
            inner = inner_names.get(inner_key, inner_key)
            kind = placed(reader.place_of(key), table.kind_of, inner)
            reader.take(f"{field}.{inner}", kind, f"{key}.{inner_key}", entry)


def _spell(name: str) -> Iterator[str]:
    yield name
    for suffix in _UNIT_SUFFIXES:
        if name.endswith(suffix):
            yield name.removesuffix(suffix)
