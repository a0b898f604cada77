"""Apps that cannot be served, each in its own way."""

from __future__ import annotations

import os
import time

from dirtybus import DirtyApp


class FailsInit(DirtyApp):
    def init(self) -> None:
        raise RuntimeError("no model here")


class FailsToBeMade(DirtyApp):
    def __init__(self) -> None:
        raise OSError("no disk")


class Hangs(DirtyApp):
    def init(self) -> None:
        time.sleep(600)


class DiesInInit(DirtyApp):
    def init(self) -> None:
        os.write(2, b"last words\n")
        os._exit(5)


class WrongCount(DirtyApp):
    workers = "2"  # type: ignore[assignment]  # what a user might write


class TooMany(DirtyApp):
    workers = 5


class NoApp:
    pass


not_a_class = 3


class FailsSecondTime(DirtyApp):
    """Boots once; a replacement cannot."""

    def init(self) -> None:
        mark = os.environ["BOOT_MARK"]
        if os.path.exists(mark):
            raise RuntimeError("the second boot fails")
        open(mark, "w").close()

    def die(self) -> None:
        os._exit(1)

    def echo(self, value: object) -> object:
        return value
