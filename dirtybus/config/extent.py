"""From how many to how many: the size of an elastic pool, and the instances of an app in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dirtybus.config.app_spec import AppSpec, check_apps
from dirtybus.config.kinds import shown
from dirtybus.errors import ConfigError

__all__ = ["Extent", "Extents", "check_fit"]

#: The fewest and the most of something, both included.
Extent = tuple[int, int]
_LOOKS: Final = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


class Extents:
    """The kind of a least and a most, which may be left out. Text is ``1-8``."""

    def settle(self, value: object) -> Extent | None:
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(type(part) is int for part in value):
            raise ConfigError(f"{shown(value)} is not a least and a most, such as (1, 8) or '1-8'")
        least, most = value
        if not 0 <= least <= most or most < 1:
            raise ConfigError(f"{least}-{most} is out of range; the least is 0 or more, the most 1 or more and no less")
        return least, most

    def read(self, value: object) -> Extent | None:
        if isinstance(value, str):
            if value.strip().lower() == "none":
                return None
            found = _LOOKS.fullmatch(value.strip())
            value = value if found is None else (int(found[1]), int(found[2]))
        return self.settle(value)


def check_fit(specs: Sequence[AppSpec], workers: int, pool_size: Extent | None, *, is_dynamic: bool) -> None:
    """Refuse apps that the pool can never serve as asked; counts on the classes are known only to a child.

    Raises:
        ConfigError: as `check_apps`; or numbers of instances that have no meaning here, or are too many together.
    """
    most = workers if pool_size is None else pool_size[1]
    check_apps(specs, most)
    wanted = [spec for spec in specs if spec.instances is not None]
    if wanted and not is_dynamic:
        raise ConfigError(
            f"app {wanted[0].path!r} asks for instances, which a worker with one app only can be; set "
            f"placement = 'dynamic' and a pool_size, or give a number of workers: '{wanted[0].path}:N'"
        )
    for spec in wanted:
        assert spec.instances is not None
        if spec.instances[0] > most:
            raise ConfigError(f"app {spec.path!r} wants {spec.instances[0]} workers at least; pool_size ends at {most}")
    fewest = [(spec.instances or (0, 0))[0] for spec in specs]
    needed = sum(fewest) + (is_dynamic and 0 in fewest)
    if needed > most:
        raise ConfigError(
            f"the apps want {sum(fewest)} workers at least, all together, and those that may have none need a place "
            f"too, but pool_size ends at {most}: raise it to {needed}, or lower their instances"
        )
