from __future__ import annotations

import math
from typing import Any

import pytest

from dirtybus.config import DirtyConfig, StashConfig, TableConfig
from dirtybus.config.kinds import Flag
from dirtybus.errors import ConfigError
from dirtybus.stash.entry import ENTRY_BYTES


def test_the_defaults_fit() -> None:
    assert DirtyConfig().stash == StashConfig()
    assert dict(StashConfig().tables) == {}


@pytest.mark.parametrize("name", ["expires_in_s", "idle_s", "max_entries", "max_bytes"])
def test_zero_and_none_are_no_limit_of_a_table(name: str) -> None:
    for none in (0, None):
        assert getattr(TableConfig(**{name: none}), name) is None  # type: ignore[arg-type]


def test_zero_is_no_limit_of_the_memory_but_a_count_is_one() -> None:
    assert StashConfig(max_bytes=0).max_bytes is None
    for name in ("max_tables", "max_waiting"):
        with pytest.raises(ConfigError, match=name):
            StashConfig(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rules",
    [
        {"expires_in_s": -1}, {"expires_in_s": math.nan}, {"idle_s": "soon"}, {"idle_s": True}, {"max_entries": -1},
        {"max_entries": 1.5}, {"max_bytes": -1}, {"on_full": "fifo"}, {"durability": "maybe"}, {"watch": 1},
        {"watch": "true"},
    ],
)  # fmt: skip
def test_a_rule_that_does_not_fit_is_refused_by_name(rules: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(rules))):
        TableConfig(**rules)


def test_tables_are_read_with_units_and_without_the_ends_of_names() -> None:
    rules = {"idle": "30m", "max_bytes": "1 MiB", "max_entries": "10", "on_full": "lru", "watch": "yes"}
    config = DirtyConfig.from_mapping({"stash": {"durability": "sync", "tables": {"sessions": rules}}})
    assert config.stash.durability == "sync"
    assert config.stash.tables["sessions"] == TableConfig(
        idle_s=1800.0, max_bytes=1024 * 1024, max_entries=10, on_full="lru", watch=True
    )


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sessions": {"idel": "30m"}}, "sessions.*idel"),
        ({"sessions": {"max_entries": -1}}, "sessions.*max_entries"),
        ({"": {}}, "no name of a table"),
        ({"x" * 256: {}}, "no name of a table"),
        ("sessions", "no table of tables|not a table of tables"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_their_names(tables: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DirtyConfig.from_mapping({"stash": {"tables": tables}})


def test_the_constructor_takes_rules_as_such_only() -> None:
    with pytest.raises(ConfigError, match="not a mapping from the names of tables to TableConfig"):
        StashConfig(tables={"t": {"idle_s": 1}})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="no name of a table"):
        StashConfig(tables={5: TableConfig()})  # type: ignore[dict-item]


def test_the_tables_cannot_be_changed_later() -> None:
    given = {"t": TableConfig()}
    config = StashConfig(tables=given)
    given["u"] = TableConfig()
    assert list(config.tables) == ["t"]
    with pytest.raises(TypeError):
        config.tables["v"] = TableConfig()  # type: ignore[index]


@pytest.mark.parametrize("text", ["true", "yes", "1", " Yes ", "TRUE"])
def test_words_for_yes(text: str) -> None:
    assert Flag().read(text) is True


@pytest.mark.parametrize("text", ["false", "no", "0", " No "])
def test_words_for_no(text: str) -> None:
    assert Flag().read(text) is False


@pytest.mark.parametrize("value", ["", "maybe", "2", 1, 0, None, [], 1.0])
def test_what_is_neither_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="true or false"):
        Flag().read(value)


def test_the_bytes_of_an_entry_are_told_as_they_are_counted() -> None:
    assert f"{ENTRY_BYTES} bytes for each entry" in (TableConfig.__doc__ or "")
