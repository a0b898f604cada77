"""`gunicorn.dirty.app`: the base class, and loading apps into this process as gunicorn does. Starts no worker."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final

from dirtybus.app import DirtyApp
from dirtybus.errors import DirtyAppError, DirtyAppNotFoundError

__all__ = ["DirtyApp", "get_app_workers_attribute", "load_dirty_app", "load_dirty_apps", "parse_dirty_app_spec"]

_FORM: Final = "Expected 'module.path:ClassName'"
_REQUIRED: Final = ("init", "__call__", "close")


def parse_dirty_app_spec(spec: str) -> tuple[str, int | None]:
    """Split ``module:Class`` or ``module:Class:N`` into the import path and N, or None.

    Raises:
        DirtyAppError: another form, or N is not a whole number >= 1.
    """
    parts = spec.split(":")
    match parts:
        case [_, _]:
            return spec, None
        case [module, name, count]:
            return f"{module}:{name}", _worker_count(spec, count)
    raise DirtyAppError(f"Invalid import path format: {spec}. {_FORM} or 'module.path:ClassName:N'", app_path=spec)


def load_dirty_app(import_path: str) -> Any:
    """Import the class, make one, and return it; ``init()`` is not called.

    Raises:
        DirtyAppNotFoundError: there is no such module or class.
        DirtyAppError: it is no class, its constructor failed, or it lacks ``init``, ``__call__`` or ``close``.
    """
    cls = _load_class(import_path)
    try:
        app = cls()
    except Exception as exc:
        raise DirtyAppError(f"Failed to instantiate {import_path}: {exc}", app_path=import_path) from exc
    for name in _REQUIRED:
        if not callable(getattr(app, name, None)):
            raise DirtyAppError(f"{import_path} is missing required method: {name}", app_path=import_path)
    return app


def load_dirty_apps(import_paths: Iterable[str]) -> dict[str, Any]:
    """Return an app for each path. Raises as `load_dirty_app`, at the first that fails."""
    return {path: load_dirty_app(path) for path in import_paths}


def get_app_workers_attribute(import_path: str) -> int | None:
    """Return the ``workers`` attribute of the class, which is imported for it but not made.

    Raises:
        DirtyAppNotFoundError: there is no such module or class.
        DirtyAppError: it is no class.
    """
    workers: int | None = getattr(_load_class(import_path), "workers", None)
    return workers


def _worker_count(spec: str, count: str) -> int:
    try:
        workers = int(count)
    except ValueError:
        raise DirtyAppError(
            f"Invalid worker count in spec: {spec}. Expected integer, got '{count}'", app_path=spec
        ) from None
    if workers < 1:
        raise DirtyAppError(
            f"Invalid worker count in spec: {spec}. Worker count must be >= 1, got {workers}", app_path=spec
        )
    return workers


def _load_class(import_path: str) -> type:
    module_path, colon, name = import_path.rpartition(":")
    if not colon:
        raise DirtyAppError(f"Invalid import path format: {import_path}. {_FORM}", app_path=import_path)
    try:
        module = importlib.import_module(module_path)
    except (ImportError, ValueError) as exc:  # ValueError: no module is named at all
        raise DirtyAppNotFoundError(import_path) from exc
    cls = getattr(module, name, None)
    if cls is None:
        raise DirtyAppNotFoundError(import_path)
    if not isinstance(cls, type):
        raise DirtyAppError(f"{import_path} is not a class", app_path=import_path)
    return cls
