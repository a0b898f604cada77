"""The four hooks and where each runs: in the owner, or in a worker, which finds it by import path."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dirtybus.config.kinds import TableKind, shown
from dirtybus.config.objects import is_import_path, path_of
from dirtybus.errors import ConfigError

__all__ = ["HOOKS", "Hooks"]


class _OwnerHook:
    """Called in the owner: a callable, or an import path."""

    def settle(self, value: object) -> object:
        if value is None or callable(value) or is_import_path(value):
            return value
        raise ConfigError(f"{shown(value)} is neither a callable nor an import path; write 'package.module:function'")

    read = settle


class _WorkerHook(_OwnerHook):
    """Called in a worker: an import path; a callable is turned into its own."""

    def settle(self, value: object) -> object:
        return path_of(value) if callable(value) else super().settle(value)

    read = settle


#: Each hook's kind by its name, in the order in which they are called.
HOOKS: Final[Mapping[str, _OwnerHook]] = MappingProxyType(
    {
        "on_dirty_starting": _OwnerHook(),
        "dirty_post_fork": _WorkerHook(),
        "dirty_worker_init": _WorkerHook(),
        "dirty_worker_exit": _OwnerHook(),
    }
)


class Hooks(TableKind):
    """The kind of ``hooks``. A hook that is None is not set."""

    inner = HOOKS

    def build(self, entries: Mapping[str, object]) -> object:
        return MappingProxyType({name: hook for name, hook in entries.items() if hook is not None})
