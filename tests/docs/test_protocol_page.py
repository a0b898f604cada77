"""The numbers of docs/protocol.md against those of the code: they are for ever, so both must say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from dirtybus.protocol import gd1_messages, tlv_format
from dirtybus.protocol.codec_leaves import Code
from dirtybus.protocol.heads import Head, Kind
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "protocol.md"
if not PAGE.exists():
    pytest.skip("the documentation is not beside these tests", allow_module_level=True)

NATIVE, GD1 = PAGE.read_text(encoding="utf-8").split("\n## GD v1\n")
BETWEEN_OWNER_AND_WORKER = range(0x21, 0x2A)


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each table row that begins with a number."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0][:1].isdigit():
            yield cells


def heads() -> dict[int, type[Head]]:
    return {kind.kind: kind for kind in Head.__subclasses__()}


def test_the_native_kinds_are_those_of_the_code() -> None:
    documented = {int(cells[0], 16): cells[1] for cells in rows(NATIVE) if cells[0].startswith("0x")}
    assert documented == {kind.value: kind.name for kind in Kind if kind not in BETWEEN_OWNER_AND_WORKER}
    assert all(kind.name in NATIVE for kind in Kind)


@pytest.mark.parametrize("cells", [cells for cells in rows(NATIVE) if cells[0].startswith("0x")], ids=lambda c: c[1])
def test_the_fields_of_a_head_are_those_of_the_code(cells: list[str]) -> None:
    documented = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cells[2]))
    assert documented == [field.name for field in msgspec.structs.fields(heads()[int(cells[0], 16)])]


def test_the_extension_codes_are_those_of_the_code() -> None:
    documented = [int(code) for cells in rows(NATIVE) if "0x" not in cells[0] for code in cells[0].split(", ")]
    assert sorted(documented) == sorted(code for name, code in vars(Code).items() if name.isupper())


def test_the_numbers_of_gd1_are_those_of_the_code() -> None:
    kinds = {int(cells[0], 16): cells[1] for cells in rows(GD1) if len(cells) == 4}
    assert kinds == {kind.value: kind.name for kind in gd1_messages.Kind}
    types = [int(number, 16) for cells in rows(GD1) if len(cells) == 3 for number in cells[0].split(", ")]
    names = ("NONE", "BOOL", "INT", "FLOAT", "BYTES", "STR", "LIST", "DICT")
    assert types == [getattr(tlv_format, name) for name in names]


@pytest.mark.parametrize("verbs", [gd1_messages.StashVerb, gd1_messages.ManageVerb])
def test_the_verbs_of_gd1_are_those_of_the_code(verbs: type[gd1_messages.StashVerb | gd1_messages.ManageVerb]) -> None:
    assert all(f"{verb.value} {verb.name.lower().replace('_', ' ')}" in GD1 for verb in verbs)


def test_every_message_has_a_head() -> None:
    assert set(heads()) == set(Kind)


def test_the_operations_of_the_stash_are_those_of_the_code() -> None:
    lines = [line for line in NATIVE.splitlines() if line.startswith("| `")]
    cells = [[re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")] for line in lines]
    documented = {name[0]: fields for name, fields in (row for row in cells if len(row) == 2)}
    operations = [*get_args(StashOp)]
    code = {op.__struct_config__.tag: [field.name for field in msgspec.structs.fields(op)] for op in operations}
    assert documented == code
    assert {field.name for field in msgspec.structs.fields(StashReply)} <= {*re.findall(r"`(\w+)`", NATIVE)}
