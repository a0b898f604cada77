"""The settings of the stash and of its tables. Knows no table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Literal

from dirtybus.config.kinds import Choice, Flag, Size, Span, Text, Whole, placed, shown
from dirtybus.config.vocabulary import Vocabulary, settle_fields
from dirtybus.errors import ConfigError

__all__ = ["Durability", "StashConfig", "TableConfig", "read_rules"]

Durability = Literal["none", "async", "sync"]
_DURABILITIES: Final = ("none", "async", "sync")
_FILE: Final = Text(pattern=r"[^\0]+", wanted="the path of a file", optional=True)
_LONGEST_NAME: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The rules of one table. For a limit, None and 0 mean that there is none.

    Attributes:
        expires_in_s: how long an entry stays that was stored without a span of its own.
        idle_s: how long an entry stays that nobody reads or writes.
        max_entries: how many entries the table holds.
        max_bytes: how much memory the table takes: its keys and values, and 352 bytes for each entry.
        on_full: what becomes of a new entry when that is reached: ``refuse`` it with `StashFull`, or make room by
            removing those that were used the longest time ago (``lru``).
        durability: when a change is on disk: never (``none``), soon after (``async``), or before it is answered
            (``sync``). None: as the stash says. Without ``persist`` there is no disk to be on.
        watch: whether changes are posted on the bus, as `StashChanged`.

    Raises:
        ConfigError: a field does not fit.
    """

    expires_in_s: Annotated[float | None, Span(limit=True)] = None
    idle_s: Annotated[float | None, Span(limit=True)] = None
    max_entries: Annotated[int | None, Whole(limit=True)] = None
    max_bytes: Annotated[int | None, Size(limit=True)] = None
    on_full: Annotated[Literal["refuse", "lru"], Choice(("refuse", "lru"))] = "refuse"
    durability: Annotated[Durability | None, Choice(_DURABILITIES, optional=True)] = None
    watch: Annotated[bool, Flag()] = False

    def __post_init__(self) -> None:
        settle_fields(self)


class _Tables:
    """Rules by the name of their table."""

    def settle(self, value: object) -> Mapping[str, TableConfig]:
        if not isinstance(value, Mapping) or not all(isinstance(rules, TableConfig) for rules in value.values()):
            raise ConfigError(f"{shown(value)} is not a mapping from the names of tables to TableConfig")
        for name in value:
            if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
                raise ConfigError(f"{shown(name)} is no name of a table; it is a text of 1 to {_LONGEST_NAME} letters")
        return MappingProxyType(dict(value))

    def read(self, value: object) -> Mapping[str, TableConfig]:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{shown(value)} is not a table of tables, such as {{sessions = {{idle = '30m'}}}}")
        return self.settle({name: placed(str(name), read_rules, rules) for name, rules in value.items()})


def read_rules(rules: object, *, source: str = "its rules") -> TableConfig:
    """Return the rules that a mapping holds, in any of the forms that settings may have.

    Raises:
        ConfigError: an unknown name, or a value that does not fit.
    """
    return rules if isinstance(rules, TableConfig) else _RULES.build(_RULES.read(rules, source=source))


@dataclass(frozen=True, slots=True, kw_only=True)
class StashConfig:
    """The stash of one owner. For a limit, None and 0 mean that there is none.

    Attributes:
        persist: the file that tables are kept in over restarts, made when it is not there; None: memory only. It is
            an SQLite database that one owner at a time may use.
        durability: what holds for tables that do not say; see `TableConfig`.
        max_bytes: how much memory all tables take together; beyond it, `StashFull`.
        max_tables: how many tables there may be.
        max_waiting: how many operations may wait at the same time: for a lock, for a change, for the disk.
        tables: the rules of tables by their names.

    Raises:
        ConfigError: a field does not fit.
    """

    persist: Annotated[str | None, _FILE] = None
    durability: Annotated[Durability, Choice(_DURABILITIES)] = "async"
    max_bytes: Annotated[int | None, Size(limit=True)] = 1024 * 1024 * 1024
    max_tables: Annotated[int, Whole()] = 10_000
    max_waiting: Annotated[int, Whole()] = 100_000
    tables: Annotated[Mapping[str, TableConfig], _Tables()] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settle_fields(self)


_RULES: Final = Vocabulary(TableConfig, also={})
