"""Apps that warm up, and one that cannot. Loaded in workers only."""

from __future__ import annotations

from dirtybus import DirtyApp

STEPS: list[str] = []


class Warm(DirtyApp):
    def init(self) -> None:
        STEPS.append("init Warm")

    def warm_up(self) -> None:
        STEPS.append("warm_up Warm")

    def seen(self) -> list[str]:
        return STEPS


class AlsoWarm(DirtyApp):
    def init(self) -> None:
        STEPS.append("init AlsoWarm")

    async def warm_up(self) -> None:
        STEPS.append("warm_up AlsoWarm")


class TooCold(DirtyApp):
    def warm_up(self) -> None:
        raise OSError("no wood")
