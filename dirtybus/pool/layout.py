"""What the settings say about how many workers there are and what each may hold. Pure; knows no worker and no call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.pool import placement
from dirtybus.pool.placement import Apps

__all__ = ["Layout"]

#: an app may then be on all workers
_NO_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class Layout:
    """The fewest and the most workers; they are equal where the pool is not elastic.

    With static placement a worker holds what its place in the plan says; with dynamic placement it holds one app, of
    which ``few`` and ``many`` say the fewest and the most instances.
    """

    specs: tuple[AppSpec, ...]
    least: int
    most: int
    is_elastic: bool
    is_dynamic: bool
    unlimited: Apps
    few: dict[str, int] = field(default_factory=dict)
    many: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, config: DirtyConfig, specs: Sequence[AppSpec], size: int | None = None) -> Layout:
        """Return the layout; ``size`` is the number of workers where it is not elastic, None: that of the settings.

        Raises:
            ConfigError: the specs do not fit.
        """
        least, most = config.pool_size or (0, 0)
        is_dynamic = config.placement == "dynamic"
        if config.pool_size is None:
            least = most = config.workers if size is None else size
        else:
            config.check_apps(specs)
        extents = {spec.path: spec.instances or (0, spec.workers or _NO_LIMIT) for spec in specs}
        return cls(
            tuple(specs),
            least,
            most,
            is_elastic=config.pool_size is not None,
            is_dynamic=is_dynamic,
            # with dynamic placement no seat is there for all
            unlimited=() if is_dynamic else placement.unlimited_apps(specs),
            few={app: few for app, (few, _) in extents.items()} if is_dynamic else {},
            many={app: many for app, (_, many) in extents.items()} if is_dynamic else {},
        )

    def bounded(self, least: int, most: int) -> Layout:
        """Return this layout with another least and most number of workers, as far as the apps' own numbers allow."""
        most = max(most, self.needed, 1)
        return replace(self, least=min(least, most), most=most)

    @property
    def fewest(self) -> int:
        """How many workers the apps' own numbers require, whatever the settings say."""
        if self.is_dynamic:
            return sum(self.few.values())
        return max((spec.workers or 0 for spec in self.specs), default=0)

    @property
    def needed(self) -> int:
        """How many there must be room for: the fewest, and a place for the apps that come and go."""
        return self.fewest + (0 in self.few.values())

    def plan(self, size: int | None = None) -> list[Apps]:
        """Return what the seats of an empty pool hold; an elastic one begins with its least number of workers."""
        if self.is_dynamic:
            return self.fill([], self.least)
        if not self.is_elastic:
            return placement.plan(self.specs, self.least if size is None else size)
        if size is None:
            size = max(self.least if self.unlimited else 0, self.fewest)
        return placement.plan(self.specs, size) if size else []

    def replan(self, seats: Sequence[Apps]) -> list[Apps]:
        """Return what the seats of an elastic pool hold from now on, that held ``seats`` so far."""
        if not self.is_dynamic:
            return self.plan(min(self.most, max(len(seats), self.fewest)))
        kept: Counter[str] = Counter()
        plan: list[Apps] = []
        for apps in seats[: self.most]:
            app = apps[0] if len(apps) == 1 and kept[apps[0]] < self.many.get(apps[0], 0) else None
            kept.update((app,) if app else ())
            plan.append((app,) if app else ())
        return self.fill(plan, self.least)

    def fill(self, plan: Sequence[Apps], least: int) -> list[Apps]:
        """Give each app its fewest instances, then whoever has the fewest one more, until ``least`` hold an app."""
        filled = list(plan)
        held = Counter(app for apps in plan for app in apps)
        missing = [app for app, few in self.few.items() for _ in range(held[app], few)]
        held.update(missing)
        while sum(held.values()) < least and (app := self.next_app(held)):
            missing.append(app)
            held[app] += 1
        vacant = [index for index, apps in enumerate(filled) if not apps]
        for index, app in zip(vacant, missing, strict=False):
            filled[index] = (app,)
        return filled + [(app,) for app in missing[len(vacant) :]]

    def next_app(self, held: Counter[str], among: Iterable[str] | None = None) -> str | None:
        """Return which app gets one more instance: the one with the fewest, the first on ties; None: all have most."""
        able = [app for app in (self.many if among is None else among) if held[app] < self.many[app]]
        return min(able, key=lambda app: held[app], default=None)
