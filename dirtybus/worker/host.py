"""The apps of one worker: imported, made, initialised, closed. Knows nothing of links or threads."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from dirtybus.app import AppInfo, DirtyApp, action_not_found, app_info, find_action, has_own_call, is_public
from dirtybus.errors import DirtyAppError, DirtyAppNotFoundError, DirtyError
from dirtybus.worker.failures import app_error

__all__ = ["AppHost", "BootStep", "boot_step", "import_object", "inspect_class", "load_class"]

T = TypeVar("T")
_NEEDED = ("init", "__call__", "close")


class AwaitResult(Protocol):
    """Waits for what an ``async def`` returned and gives its result."""

    def __call__(self, awaitable: Any, /) -> Any: ...


class BootStep(Exception):
    """Booting failed at ``step`` of ``app``; the cause is ``__cause__``."""

    def __init__(self, step: str, app: str | None, duration_s: float) -> None:
        super().__init__(step)
        self.step = step
        self.app = app
        self.duration_s = duration_s

    def error(self) -> DirtyError:
        """Return the cause as an error that can travel."""
        cause = self.__cause__
        assert cause is not None
        return cause if isinstance(cause, DirtyError) else app_error(cause, app=self.app, action=self.step)


class AppHost:
    """Hold the instances of ``paths``, in that order.

    Args:
        paths: import paths ``module:Class``.
        await_result: how the result of an ``async def`` life-cycle method is waited for.
        on_step: told of each step of an app's boot before it begins.
    """

    def __init__(self, paths: Sequence[str], await_result: AwaitResult, on_step: Callable[[str, str], None]) -> None:
        self._paths = tuple(paths)
        self._await_result = await_result
        self._on_step = on_step
        self._apps: dict[str, Any] = {}
        self._infos: dict[str, AppInfo] = {}
        self._inited: list[str] = []
        #: what callers may call, as far as it was asked: no more than there are actions
        self._checked: set[tuple[str, str]] = set()

    def load(self) -> None:
        """Import and make every app, then initialise every app, then warm up those that say how.

        Raises:
            BootStep: the first failure; apps that were initialised before it are closed by `close`.
        """
        classes = {path: self._step("import", path, partial(load_class, path)) for path in self._paths}
        for path, cls in classes.items():
            self._apps[path] = self._step("__init__", path, cls)
            self._infos[path] = app_info(path, cls)
        for path in self._paths:
            self._step("init", path, partial(self._run, self._apps[path].init))
            self._inited.append(path)
        for path in self._paths:
            if (warm_up := _own_warm_up(self._apps[path])) is not None:
                self._step("warm_up", path, partial(self._run, warm_up))

    def close(self, on_error: Callable[[str, BaseException], None]) -> None:
        """Close the initialised apps, last one first; a failure is told to ``on_error`` and the rest go on."""
        while self._inited:
            path = self._inited.pop()
            try:
                self._run(self._apps[path].close)
            except (Exception, SystemExit) as exc:
                on_error(path, exc)

    def is_async(self, path: str, action: str) -> bool:
        """Whether the action runs on the event loop; False for what does not exist."""
        info = self._infos.get(path)
        return info is not None and info.actions.get(action, info.default).is_async

    def is_batched(self, path: str, action: str) -> bool:
        """Whether calls of the action run together."""
        info = self._infos.get(path)
        return info is not None and action in info.actions and info.actions[action].batch is not None

    def bind(self, path: str, action: str) -> Callable[..., Any]:
        """Return what to call with the caller's arguments.

        Raises:
            DirtyAppNotFoundError: the app is not in this worker.
            ActionNotFound: callers may not call that.
        """
        app = self._apps.get(path)
        if (path, action) in self._checked:
            return getattr(app, action)  # type: ignore[no-any-return]
        if app is None:
            raise DirtyAppNotFoundError(path, f"{path} is not loaded in this worker; it has: {', '.join(self._paths)}")
        if not has_own_call(type(app)):
            found = find_action(app, action)
            self._checked.add((path, action))
            return found
        if not is_public(action):
            raise action_not_found(type(app), action, path)
        return lambda *args, **kwargs: app(action, *args, **kwargs)

    def _step(self, step: str, path: str, run: Callable[[], T]) -> T:
        self._on_step(step, path)
        return boot_step(step, path, run)

    def _run(self, method: Callable[[], Any]) -> Any:
        result = method()
        return self._await_result(result) if hasattr(result, "__await__") else result


def _own_warm_up(app: Any) -> Callable[[], Any] | None:
    """Return the app's `warm_up`; None where it has none of its own, which is no step of the boot."""
    method = getattr(type(app), "warm_up", None)
    if not callable(method) or method is DirtyApp.warm_up:
        return None
    bound: Callable[[], Any] = app.warm_up
    return bound


def boot_step(step: str, app: str | None, run: Callable[[], T]) -> T:
    """Run one step of the boot journey; what it raises, also SystemExit, becomes a `BootStep`."""
    began_at = time.monotonic()
    try:
        return run()
    except (Exception, SystemExit) as exc:
        raise BootStep(step, app, time.monotonic() - began_at) from exc


def inspect_class(path: str) -> type:
    """Return the app class at ``path``; a failure is a `BootStep`."""
    return boot_step("import", path, lambda: load_class(path))


def import_object(path: str) -> Any:
    """Return what ``module:name`` names, importing the module.

    Raises:
        DirtyAppNotFoundError: no such module, or nothing of that name in it. An error inside the module passes.
    """
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        missing = exc.name or ""
        if module_name != missing and not module_name.startswith(missing + "."):
            raise  # the module is there; something it needs is not
        raise DirtyAppNotFoundError(
            path, f"there is no module {missing!r} for {path!r}; looked in: {', '.join(sys.path[:4])}…"
        ) from exc
    try:
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise DirtyAppNotFoundError(path, f"module {module_name!r} has no {name!r}") from None
    return found


def load_class(path: str) -> type:
    """Return the app class at ``path``.

    Raises:
        DirtyAppNotFoundError: as `import_object`.
        DirtyAppError: not a class, or not one that can be an app.
    """
    cls = import_object(path)
    if not isinstance(cls, type):
        raise DirtyAppError(f"{path} is a {type(cls).__name__}, not a class", app_path=path)
    # looked up as an instance would: every class has a __call__ of its metaclass's
    missing = [name for name in _NEEDED if not any(callable(vars(base).get(name)) for base in cls.__mro__)]
    if missing:
        raise DirtyAppError(
            f"{path} has no {', '.join(missing)}; derive it from dirtybus.DirtyApp or write them", app_path=path
        )
    return cls
