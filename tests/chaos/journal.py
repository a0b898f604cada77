"""The journal: what actions write down when they begin and end, so that a second run of one is seen.

Each line is one write to a file that is only ever appended to: it is there, or it is not, whatever kills the writer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:  # workers load this, and need no paths
    from pathlib import Path

__all__ = ["Journal", "JournalWriter"]


class JournalWriter:
    """Appends to the journal at ``path``."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def begin(self, token: str) -> None:
        os.write(self._fd, f"begin {token}\n".encode())

    def end(self, token: str) -> None:
        os.write(self._fd, f"end {token}\n".encode())


@dataclass(frozen=True, slots=True)
class Journal:
    """How often each token was begun and ended."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        journal = cls()
        for line in lines:
            word, _, token = line.strip().partition(" ")
            (journal.begun if word == "begin" else journal.ended)[token] += 1
        return journal

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the journal at ``path``; an empty one where nothing was written."""
        return cls.of(path.read_text(encoding="utf-8").splitlines() if path.exists() else ())
