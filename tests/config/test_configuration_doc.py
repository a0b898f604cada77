from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from dirtybus.config import HOOKS, DirtyConfig, GateConfig, RecycleConfig, ScalingConfig, StashConfig, TableConfig
from dirtybus.config.sources import load_config

DOC = Path(__file__).parents[2] / "docs" / "configuration.md"
EMPTY = "–"
ANY_TABLE = "stash.tables.*."
#: what is set where the default is nothing
EXAMPLES = {
    "apps": "a:A",
    "env": "A=1",
    "pythonpath": "src",
    "stash.persist": "stash.db",
    f"{ANY_TABLE}durability": "sync",
}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    default: str
    gunicorn: str
    variable: str


def documented() -> dict[str, Row]:
    lines = DOC.read_text(encoding="utf-8").split("## Settings", 1)[1].splitlines()
    cells = [[cell.strip(" `") for cell in line.split("|")[1:5]] for line in lines if line.startswith("| `")]
    return {row[0]: Row(*row) for row in cells}


def settings() -> dict[str, object]:
    """Each setting's name and default; what tables hold, one by one."""
    plain = {f.name: getattr(DirtyConfig(), f.name) for f in dataclasses.fields(DirtyConfig)}
    gate = {f"gate.{f.name}": getattr(GateConfig(), f.name) for f in dataclasses.fields(GateConfig)}
    stash = {f"stash.{f.name}": getattr(StashConfig(), f.name) for f in dataclasses.fields(StashConfig)}
    del stash["stash.tables"]  # each of its fields instead
    stash |= {f"{ANY_TABLE}{f.name}": getattr(TableConfig(), f.name) for f in dataclasses.fields(TableConfig)}
    recycle = {f"recycle.{f.name}": getattr(RecycleConfig(), f.name) for f in dataclasses.fields(RecycleConfig)}
    scaling = {f"scaling.{f.name}": getattr(ScalingConfig(), f.name) for f in dataclasses.fields(ScalingConfig)}
    tables = ("gate", "hooks", "recycle", "scaling", "stash")
    plain = {name: value for name, value in plain.items() if name not in tables}
    return plain | gate | recycle | scaling | stash | {f"hooks.{hook}": None for hook in HOOKS}


def nested(name: str, value: object) -> dict[str, object]:
    if name.startswith(ANY_TABLE):
        return {"stash": {"tables": {"any": {name.removeprefix(ANY_TABLE): value}}}}
    table, _, inner = name.rpartition(".")
    return {table: {inner: value}} if table else {inner: value}


def test_every_setting_is_documented_and_no_other() -> None:
    assert set(documented()) == set(settings())


@pytest.mark.parametrize("name", settings())
def test_the_documented_default_is_the_default(name: str) -> None:
    row = documented()[name]
    if row.default == EMPTY:
        assert not settings()[name]
        return
    is_of_a_table = name.startswith(ANY_TABLE)
    expected = DirtyConfig(stash=StashConfig(tables={"any": TableConfig()})) if is_of_a_table else DirtyConfig()
    assert DirtyConfig.from_mapping(nested(name, row.default)) == expected


@pytest.mark.parametrize("name", settings())
def test_the_documented_names_are_understood(name: str) -> None:
    row = documented()[name]
    text = EXAMPLES.get(name, "a:b" if row.default == EMPTY else row.default)
    expected = DirtyConfig.from_mapping(nested(name, text))
    if name.startswith(ANY_TABLE):
        assert row.variable == EMPTY, "a variable cannot say which table it is for"
        return
    assert load_config(Path("/dev/null"), environ={row.variable: text}) == expected
    if row.gunicorn:
        assert DirtyConfig.from_mapping({row.gunicorn: text}) == expected


@pytest.mark.parametrize("owner", [DirtyConfig, GateConfig, RecycleConfig, ScalingConfig, StashConfig, TableConfig])
def test_every_field_stands_in_the_docstring(
    owner: type[DirtyConfig | GateConfig | RecycleConfig | ScalingConfig | StashConfig | TableConfig],
) -> None:
    listed = re.findall(r"^    (\w+): ", inspect.getdoc(owner) or "", re.MULTILINE)
    assert [name for name in listed if name != "ConfigError"] == [f.name for f in dataclasses.fields(owner)]
