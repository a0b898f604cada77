"""Values that go off: in the hands of whoever rebuilds them, of the action, or of whoever sends its result."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from dirtybus import DirtyApp


def go_off(how: str) -> None:
    match how:
        case "raise":
            raise RuntimeError("a mine")
        case "sys.exit":
            sys.exit(3)
        case "os._exit":
            os._exit(9)
        case "SIGSEGV":
            os.kill(os.getpid(), signal.SIGSEGV)


@dataclass(frozen=True, eq=False)
class ArgumentMine:
    """Goes off when it is made a key of a dict, anywhere but at home."""

    how: str
    home: int

    def __hash__(self) -> int:
        if os.getpid() != self.home:
            go_off(self.how)
        return 1


@dataclass
class ResultMine:
    """Goes off when its second field, which is not set, is looked for."""

    how: str
    fuse: int

    def __getattr__(self, name: str) -> Any:
        if name == "fuse":
            go_off(self.how)
        raise AttributeError(name)


class Minefield(DirtyApp):
    def take(self, mine: Any) -> int:
        return len(mine)

    def step_on(self, how: str) -> None:
        go_off(how)

    def give(self, how: str) -> ResultMine:
        mine = object.__new__(ResultMine)
        mine.how = how
        return mine

    def echo(self, value: int) -> int:
        return value
