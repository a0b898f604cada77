"""What the arbiter knows of the apps without importing them: limits, deadlines, and how each action is treated."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from dirtybus.app import AppInfo
from dirtybus.batch import Batch
from dirtybus.config import AppSpec, DirtyConfig
from dirtybus.config.fitting import Deadline
from dirtybus.errors import ConfigError, DirtyAppNotFoundError
from dirtybus.pool.model import ActionKind, OnCancel

__all__ = ["Directory", "Terms"]

_CALLERS: Final = "the caller's timeout"
#: a greeting must fit into the socket's buffer at once: what follows it was then not read before it was sent
_MOST_ANNOUNCED: Final = 4096
_MOST_ANNOUNCED_BYTES: Final = 64 * 1024
_PAIR_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Terms:
    """How one call is to be treated. ``whose`` names the limit that ``timeout_s`` is; None: no deadline.

    With ``batch``, calls of the action run together.
    """

    timeout_s: float | None
    whose: str
    kind: ActionKind
    idempotent: bool
    on_cancel: OnCancel
    released_by_drain: bool
    priority: int
    batch: Batch | None = None


class Directory:
    """The apps served, as a child process reported them.

    Args:
        config: the pool's settings.
        reports: one mapping per app of ``config.apps``, in that order.

    Raises:
        ConfigError: a class attribute that cannot be, or limits that can never be met; names the app.
    """

    def __init__(self, config: DirtyConfig, reports: Sequence[Mapping[str, Any]]) -> None:
        self._config = config
        self._terms: dict[tuple[str, str], Terms] = {}
        self._infos = {info.path: info for info in map(_read, reports)}
        self.specs = tuple(self._resolved(spec) for spec in config.apps)
        config.check_apps(self.specs)

    @property
    def stashes(self) -> tuple[str, ...]:
        """Every table that an app declares."""
        return tuple(dict.fromkeys(name for info in self._infos.values() for name in info.stashes))

    @property
    def paths(self) -> tuple[str, ...]:
        """The import paths of the apps, in the order of the settings."""
        return tuple(spec.path for spec in self.specs)

    @property
    def idempotent(self) -> tuple[tuple[str, str], ...]:
        """App and action of those that may be run twice; not more than fit into a greeting."""
        announced: list[tuple[str, str]] = []
        room = _MOST_ANNOUNCED_BYTES
        for path, info in self._infos.items():
            for name, options in info.actions.items():
                if not options.idempotent:
                    continue
                room -= len(path.encode()) + len(name.encode()) + _PAIR_BYTES
                if room < 0 or len(announced) == _MOST_ANNOUNCED:
                    return tuple(announced)
                announced.append((path, name))
        return tuple(announced)

    @property
    def threads_by_app(self) -> Mapping[str, int]:
        """How many sync actions of each app may run at once in one worker."""
        return {path: info.threads or self._config.threads for path, info in self._infos.items()}

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """The deadlines that apps and actions have of their own, without those that a drain does not wait for."""
        own = []
        for path, info in self._infos.items():
            named = [(path, info.timeout_s, info.on_drain)]
            named += [(f"{path} {name}", o.timeout_s, o.on_drain or info.on_drain) for name, o in info.actions.items()]
            own += [(whom, timeout_s) for whom, timeout_s, on_drain in named if on_drain != "release"]
        return tuple(Deadline(whom, timeout_s or None) for whom, timeout_s in own if timeout_s is not None)

    def threads(self, apps: Sequence[str]) -> int:
        """Return how many threads a worker with ``apps`` has: as many as the hungriest of them may use."""
        return max((self.threads_by_app[app] for app in apps), default=1)

    def terms(self, app: str, action: str, timeout_s: float | None) -> Terms:
        """Return how a call is treated; a ``timeout_s`` of 0 asks for no deadline.

        Raises:
            DirtyAppNotFoundError: no such app is served; names the nearest.
        """
        terms = self._terms.get((app, action)) or self._own_terms(app, action)
        return terms if timeout_s is None else replace(terms, timeout_s=timeout_s or None, whose=_CALLERS)

    def check_alone(self, app: str) -> None:
        """Make sure that the app has workers of its own, whose number can be asked for.

        Raises:
            DirtyAppNotFoundError: no such app is served; names the nearest.
            ConfigError: a worker holds several apps.
        """
        if app not in self._infos:
            raise self._not_found(app)
        if self._config.placement != "dynamic":
            raise ConfigError(
                f"a number of workers for {app!r} alone has no meaning: a worker holds several apps. Ask for workers "
                "without an app, or set placement = 'dynamic'"
            )

    def _own_terms(self, app: str, action: str) -> Terms:
        info = self._infos.get(app)
        if info is None:
            raise self._not_found(app)
        options = info.actions.get(action, info.default)
        limits = (
            (options.timeout_s, "the action's timeout"),
            (info.timeout_s, "the app's timeout"),
            (self._config.timeout_s, "the setting timeout"),
        )
        chosen, whose = next((limit for limit in limits if limit[0] is not None), (None, ""))
        terms = Terms(
            timeout_s=chosen or None,
            whose=whose,
            kind=ActionKind.ASYNC if options.is_async else ActionKind.SYNC,
            idempotent=options.idempotent,
            on_cancel=OnCancel(options.on_cancel or info.on_cancel),
            released_by_drain=(options.on_drain or info.on_drain) == "release",
            priority=options.priority,
            batch=options.batch,
        )
        if action in info.actions:  # not for any name that a caller may think of: that has no bound
            self._terms[app, action] = terms
        return terms

    def _not_found(self, app: str) -> DirtyAppNotFoundError:
        # a name of a megabyte, from a client, must not keep the loop
        near = difflib.get_close_matches(app[:200], self.paths, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"served here: {', '.join(self.paths) or 'no app'}"
        return DirtyAppNotFoundError(app, f"no app {app!r:.200} is served here; {hint}")

    def _resolved(self, spec: AppSpec) -> AppSpec:
        info = self._infos[spec.path]
        if spec.workers is not None or spec.instances is not None:
            return spec
        if self._config.placement == "dynamic" and info.instances is not None:
            return replace(spec, instances=info.instances)
        return replace(spec, workers=info.workers)


def _read(report: Mapping[str, Any]) -> AppInfo:
    path = report["path"]
    for name, wanted, fits in _CHECKS:
        if not fits(report.get(name)):
            raise ConfigError(f"app {path!r}: the class attribute {name} must be {wanted}, not {report.get(name)!r}")
    return msgspec.convert(report, AppInfo)


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and value >= 1)


def _is_extent(value: object) -> bool:
    if not isinstance(value, (list, tuple)):
        return value is None
    is_pair = len(value) == 2 and all(type(part) is int for part in value)
    return is_pair and 0 <= value[0] <= value[1] and value[1] >= 1


def _is_span(value: object) -> bool:
    return value is None or (type(value) in {int, float} and value >= 0)  # type: ignore[operator]


_CHECKS: Final = (
    ("workers", "a whole number >= 1, or None for all workers", _is_count),
    ("instances", "two whole numbers, a least and a most, or None for what the pool allows", _is_extent),
    ("threads", "a whole number >= 1, or None for the pool's setting", _is_count),
    ("timeout_s", "a number of seconds >= 0 (0 for none), or None for the pool's setting", _is_span),
    ("on_cancel", "'kill' or 'wait'", lambda word: word in ("kill", "wait")),
    ("on_drain", "'finish' or 'release'", lambda word: word in ("finish", "release")),
    ("stashes", "a list of table names", lambda names: all(isinstance(n, str) and n for n in names)),
)
