"""How each app's workers failed last: what callers are told while its circuit is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dirtybus.config import DirtyConfig
from dirtybus.errors import AppBroken, DirtyError

__all__ = ["Breakage"]


class Breakage:
    """The last failure of each app, as an error whose details are the boot report."""

    def __init__(self) -> None:
        self._last: dict[str, DirtyError] = {}

    def note(self, apps: Iterable[str], failure: DirtyError) -> None:
        """A worker with these apps failed."""
        for app in apps:
            self._last[app] = failure

    def error(self, app: str, config: DirtyConfig) -> AppBroken:
        """Return what a caller of the app is told."""
        failure = self._last.get(app)
        report: Mapping[str, Any] = {} if failure is None else failure.details
        last = "" if failure is None else f"; the last time: {failure}"
        again_s = config.restart_delay_max_s
        return AppBroken(
            f"{app} is out of order: its workers failed more than {config.max_restarts} times within "
            f"{config.restart_period_s:g} s (max_restarts, restart_period); it is tried again every {again_s:g} s"
            f"{last}",
            {**report, "app_path": app},
            retry_after_s=again_s,
        )
