"""The documentation against the code: what it shows runs, what it names exists, where it leads is there."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dirtybus
from dirtybus import errors, events
from tests.docs.pages import ROOT, Block, anchors, blocks, links, pages, prose

PAGES = pages()
if not PAGES:
    pytest.skip("the documentation is not beside these tests", allow_module_level=True)

BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
TRANSLATED = [page for page in PAGES if page.name.endswith(".zh-CN.md")]
#: a translation shows the same programs, so they run once
PROGRAMS = [block for block in PYTHON if block.mark == "runs" and block.page not in TRANSLATED]
MARKS = {"", "file", "runs", "prints"}
RUNS_WITHIN_S = 50.0


@functools.cache
def subjects() -> dict[str, Any]:
    """What a name in an example stands for, by the name that the examples give it."""
    return {
        "bus": dirtybus.DirtyBus(apps=["shop:Model"]),
        "client": dirtybus.DirtyClient("/nowhere"),
        "locker": dirtybus.ProcessLocker(),
        "stash": dirtybus.stash,
    }


def tree_of(block: Block) -> ast.Module:
    """Parse an example; one that is no program may await at its top level."""
    flags = ast.PyCF_ONLY_AST | (0 if block.mark == "runs" else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    tree = compile(block.text, str(block), "exec", flags)
    assert isinstance(tree, ast.Module)
    compile(tree, str(block), "exec", flags & ~ast.PyCF_ONLY_AST)
    return tree


def write_files(block: Block, directory: Path) -> Path:
    """Write the files of the block's page; return the path of the block's own."""
    for each in blocks(block.page):
        if each.mark in ("file", "runs"):
            (directory / each.name).write_text(each.text, encoding="utf-8")
    return directory / block.name


def printed_by(block: Block) -> str | None:
    """Return what the page says that the program prints, if it says so."""
    later = iter(blocks(block.page))
    _ = next(each for each in later if each == block)
    follower = next(later, None)
    return follower.text if follower is not None and follower.mark == "prints" else None


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_of_the_documentation_runs_and_prints_what_it_says(block: Block, tmp_path: Path) -> None:
    program = write_files(block, tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DIRTYBUS_")}
    ended = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUNS_WITHIN_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    expected = printed_by(block)
    assert expected is None or ended.stdout == expected, ended.stderr


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_an_example_compiles(block: Block) -> None:
    tree_of(block)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_what_an_example_imports_of_ours_exists(block: Block) -> None:
    for node in ast.walk(tree_of(block)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dirtybus":
            module = importlib.import_module(node.module or "")
            assert not [alias.name for alias in node.names if not _has(module, alias.name)]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_what_an_example_calls_of_ours_exists(block: Block) -> None:
    known = subjects()
    for node in ast.walk(tree_of(block)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            assert hasattr(known[node.value.id], node.attr), f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_mark_is_one_that_means_something(block: Block) -> None:
    assert block.mark in MARKS
    assert bool(block.name) == (block.mark in ("file", "runs"))


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_translation_shows_the_same_examples(page: Path) -> None:
    original = page.with_name(page.name.replace(".zh-CN", ""))
    shown = [[block.text for block in blocks(each) if block.language == "python"] for each in (page, original)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for name in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", prose(page)):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *ROOT.glob("docs/*.md")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        one = waiting.pop()
        seen.add(one)
        linked = {(one.parent / link.partition("#")[0]).resolve() for link in links(one)}
        waiting.extend(linked.intersection(PAGES) - seen)
    assert page in seen


@pytest.mark.parametrize("module", [dirtybus, errors, events], ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module: ModuleType) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent.name != "examples")
    words = set(re.findall(r"\w+", text))
    assert not set(module.__all__) - words


def _has(module: ModuleType, name: str) -> bool:
    return hasattr(module, name) or importlib.util.find_spec(f"{module.__name__}.{name}") is not None
