"""A rolling reload: which seats still have a worker of an older generation. Starts and stops nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dirtybus.pool.layout import Layout
from dirtybus.pool.placement import Apps
from dirtybus.pool.ports import ReloadBegun
from dirtybus.pool.seats import Seat

__all__ = ["Rollout"]


@dataclass(slots=True)
class Rollout:
    """One reload under way, from its fact to its report.

    The new settings and places hold from ``is_committed`` on, which is when the first worker of the new generation is
    ready: a generation that cannot boot changes nothing.
    """

    wanted: ReloadBegun
    layout: Layout
    plan: Sequence[Apps]
    is_committed: bool = False

    @property
    def generation(self) -> int:
        return self.wanted.generation

    def fewest_ready(self, staying: Sequence[Seat]) -> int:
        """Return how many workers must stay ready; until the first new one is, a smaller plan spares nobody."""
        needed = max(sum(1 for apps in self.plan if apps), sum(1 for seat in staying if seat.apps))
        return needed - self.wanted.config.max_unavailable

    def places(self, staying: Sequence[Seat]) -> list[tuple[Seat, Apps]]:
        """Return the seats that there are already and that will hold an app, with what each will hold."""
        if self.is_committed:  # seats that were added may stand between others
            return [(seat, seat.apps) for seat in staying if seat.apps]
        return [(seat, apps) for seat, apps in zip(staying, self.plan, strict=False) if apps]
