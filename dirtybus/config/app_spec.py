"""Which apps to serve, and on how many workers. Imports no app: a path is checked by its looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dirtybus.config.kinds import shown
from dirtybus.config.objects import is_import_path, path_of
from dirtybus.errors import ConfigError

__all__ = ["AppSpec", "Apps", "check_apps"]


@dataclass(frozen=True, slots=True)
class AppSpec:
    """One app to serve: ``module:Class`` and on how many workers at most (None: all of them).

    ``instances`` says instead from how many to how many, where each worker holds one app: dynamic placement.
    """

    path: str
    workers: int | None = None
    instances: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not is_import_path(self.path):
            raise ConfigError(f"app {shown(self.path)} is not an import path; write it as 'package.module:Class'")
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"app {self.path!r} asks for {self.workers!r} workers; it must be a whole number >= 1")
        if self.instances is not None and not _is_extent(self.instances):
            raise ConfigError(
                f"app {self.path!r} asks for {self.instances!r} instances; it must be a least and a most, as in (1, 4)"
            )
        if self.instances is not None and self.workers is not None:
            raise ConfigError(f"app {self.path!r} is given both workers and instances; keep one of the two")

    @classmethod
    def parse(cls, text: str) -> AppSpec:
        """Read ``module:Class``, ``module:Class:N`` or ``module:Class:MIN-MAX``.

        The numbers beat the class's own attributes ``workers`` and ``instances``.

        Raises:
            ConfigError: not such a text, or a number that cannot be.
        """
        module, _, rest = text.strip().partition(":")
        name, has_count, count = rest.partition(":")
        if not has_count:
            return cls(f"{module}:{name}")
        least, has_most, most = count.partition("-")
        if has_most and _is_digits(least) and _is_digits(most):
            return cls(f"{module}:{name}", instances=(int(least), int(most)))
        if not (_is_digits(count) and int(count)):
            raise ConfigError(
                f"app {text!r}: the part after the second ':' must be a whole number >= 1, or two as in '1-4', "
                f"not {count!r}"
            )
        return cls(f"{module}:{name}", int(count))

    def __str__(self) -> str:
        if self.instances is not None:
            return f"{self.path}:{self.instances[0]}-{self.instances[1]}"
        return self.path if self.workers is None else f"{self.path}:{self.workers}"


def check_apps(specs: Iterable[AppSpec], workers: int) -> None:
    """Refuse a list of apps that a pool of ``workers`` can never serve as asked.

    Counts that stand on the classes are known only once a child has imported them; ask again then.

    Raises:
        ConfigError: an app is listed twice, asks for more workers than there are, or there are none at all.
    """
    seen: set[str] = set()
    for spec in specs:
        if spec.path in seen:
            raise ConfigError(f"app {spec.path!r} is listed twice; keep one and give its workers as '{spec.path}:N'")
        seen.add(spec.path)
        if workers < 1:
            raise ConfigError(f"app {spec.path!r} has no worker to run on; set workers to 1 or more, or drop the app")
        if spec.workers is not None and spec.workers > workers:
            raise ConfigError(
                f"app {spec.path!r} wants {spec.workers} workers but the pool has {workers}: "
                f"raise workers to {spec.workers} or write '{spec.path}:{workers}'"
            )


class Apps:
    """The kind of ``apps``. Text is a list with commas; a class stands for its import path."""

    def settle(self, value: object) -> tuple[AppSpec, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, AppSpec) for item in value):
            raise ConfigError(
                f"{shown(value)} is not a tuple of AppSpec; the constructor takes exact types, `of` takes text too"
            )
        return tuple(value)

    def read(self, value: object) -> tuple[AppSpec, ...]:
        if isinstance(value, str):
            value = [part for part in value.split(",") if part.strip()]
        if isinstance(value, (AppSpec, type)):
            value = [value]
        if not isinstance(value, (list, tuple)):
            raise ConfigError(
                f"{shown(value)} is not a list of apps; write each as 'package.module:Class' or '…:Class:N'"
            )
        return self.settle([_read_app(item) for item in value])


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_extent(value: object) -> bool:
    is_pair = isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value)
    return is_pair and 0 <= value[0] <= value[1] and value[1] >= 1  # type: ignore[index]


def _read_app(value: object) -> object:
    if isinstance(value, str):
        return AppSpec.parse(value)
    if isinstance(value, AppSpec):
        return value
    if isinstance(value, type):
        return AppSpec(path_of(value))
    raise ConfigError(f"{shown(value)} is not an app; write it as 'package.module:Class' or '…:Class:N'")
