"""The documentation as data: pages, their code blocks and links. Judges nothing, runs nothing.

An HTML comment says more of the block that follows it, and is not seen by readers:

- ``file: NAME``: the block is that file, beside the others of its page;
- ``runs: NAME``: it is that file, and a program that ends by itself with 0;
- ``prints``: it is what the program before it writes to stdout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "anchors", "blocks", "links", "pages", "prose"]

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>.+?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block. ``mark`` is the word of the comment before it, ``name`` what stands behind that."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def pages() -> list[Path]:
    """Return every page of the documentation; none where the tests stand alone."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
    return sorted(found) if (ROOT / "docs").is_dir() else []


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    source = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(source):
        mark, _, name = (found["mark"] or "").partition(": ")
        line = source.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["language"], found["text"], mark, name)


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links that lead to files or headings."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Return what a link to a heading of the page may say behind its ``#``."""
    return {_anchor(heading) for heading in _HEADING.findall(prose(page))}


def _anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return kept.replace(" ", "-")
