"""What the workers of each generation are started with: settings, and what is known of their apps. Starts nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dirtybus.arbiter.directory import Directory
from dirtybus.config import DirtyConfig
from dirtybus.errors import ConfigError

__all__ = ["Edition", "Editions", "check_reloadable"]

#: what is bound to the owner's process or to links that exist
_FIXED: Final = ("socket", "name", "gate", "stash", "max_payload_bytes")


@dataclass(frozen=True, slots=True)
class Edition:
    """One state of settings and code, from the moment at which it was looked at."""

    config: DirtyConfig
    directory: Directory


class Editions:
    """The edition in force, and those that workers may still be started with.

    Calls are treated as the edition in force says; a generation gets there when its first worker is ready.
    """

    def __init__(self, first: Edition) -> None:
        self._by_generation = {0: first}
        self._newest = 0
        self.current = first

    def add(self, edition: Edition) -> int:
        """Take up an edition that is to come into force; returns its generation."""
        self._newest += 1
        self._by_generation[self._newest] = edition
        return self._newest

    def of(self, generation: int) -> Edition:
        """Return what workers of this generation are started with."""
        return self._by_generation[generation]

    def commit(self, generation: int) -> Edition:
        """Bring the edition of the generation into force, and return it; older ones are forgotten."""
        self.current = self._by_generation[generation]
        self._by_generation = {generation: self.current}
        return self.current

    def withdraw(self, generation: int) -> None:
        """Forget an edition that did not come into force; nothing happens when it did."""
        if self._by_generation[generation] is not self.current:
            del self._by_generation[generation]


def check_reloadable(old: DirtyConfig, new: DirtyConfig) -> None:
    """Refuse settings that need another owner process.

    Raises:
        ConfigError: one of them differs; names it.
    """
    for name in _FIXED:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            raise ConfigError(
                f"{name} cannot change while the owner runs ({before!r} now, {after!r} wanted): restart it, or put the "
                "old value back and reload"
            )
