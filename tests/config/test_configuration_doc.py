from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from dirtybus.config import HOOKS, DirtyConfig, GateConfig
from dirtybus.config.sources import load_config

DOC = Path(__file__).parents[2] / "docs" / "configuration.md"
EMPTY = "–"


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
    tables = ("gate", "hooks")
    return {n: v for n, v in plain.items() if n not in tables} | gate | {f"hooks.{hook}": None for hook in HOOKS}


def nested(name: str, value: object) -> dict[str, object]:
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
    assert DirtyConfig.from_mapping(nested(name, row.default)) == DirtyConfig()


@pytest.mark.parametrize("name", settings())
def test_the_documented_names_are_understood(name: str) -> None:
    row = documented()[name]
    text = {"apps": "a:A", "env": "A=1", "pythonpath": "src"}.get(name, "a:b" if row.default == EMPTY else row.default)
    expected = DirtyConfig.from_mapping(nested(name, text))
    assert load_config(Path("/dev/null"), environ={row.variable: text}) == expected
    if row.gunicorn:
        assert DirtyConfig.from_mapping({row.gunicorn: text}) == expected


@pytest.mark.parametrize("owner", [DirtyConfig, GateConfig])
def test_every_field_stands_in_the_docstring(owner: type[DirtyConfig | GateConfig]) -> None:
    listed = re.findall(r"^    (\w+): ", inspect.getdoc(owner) or "", re.MULTILINE)
    assert [name for name in listed if name != "ConfigError"] == [f.name for f in dataclasses.fields(owner)]
