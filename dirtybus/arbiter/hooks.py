"""The two hooks that run in the owner: before the first worker starts, and after each worker's exit."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from dirtybus import log
from dirtybus.errors import ConfigError
from dirtybus.events import ArbiterStarting, LifecycleEvent, WorkerExited

__all__ = ["OwnerHooks"]


class OwnerHooks:
    """Call ``on_dirty_starting(arbiter)`` and ``dirty_worker_exit(arbiter, worker)``.

    The worker of the second is the `WorkerExited` event, with pid, apps, exit_code, signal and reason.
    """

    def __init__(self, hooks: Mapping[str, object]) -> None:
        self._starting = _load("on_dirty_starting", hooks.get("on_dirty_starting"))
        self._exit = _load("dirty_worker_exit", hooks.get("dirty_worker_exit"))

    def tell(self, arbiter: object, event: LifecycleEvent) -> None:
        """Run the hook that ``event`` calls for; an error in a hook is logged and changes nothing."""
        match event:
            case ArbiterStarting() if self._starting is not None:
                _run("on_dirty_starting", self._starting, arbiter)
            case WorkerExited() if self._exit is not None:
                _run("dirty_worker_exit", self._exit, arbiter, event)


def _load(name: str, hook: object) -> Callable[..., Any] | None:
    """Return the hook; one named by its import path is imported, as its author asked for by naming it here."""
    if hook is None or callable(hook):
        return hook
    module, _, function = str(hook).partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"hook {name} = {hook!r} cannot be loaded: {exc}") from exc
    if not callable(found):
        raise ConfigError(f"hook {name} = {hook!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _run(name: str, hook: Callable[..., Any], *args: object) -> None:
    try:
        hook(*args)
    except Exception as exc:
        log.error(exc, "hook {} failed: {}", name, exc)
