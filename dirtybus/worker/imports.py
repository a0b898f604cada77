"""What is done to a library right after the user's code imports it. Nothing is imported on our own account."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["after_import", "limit_onnxruntime"]

Hook = Callable[[ModuleType], None]


class _AfterImport:
    """A finder that finds nothing itself: it lets those after it find, and puts a hook behind their loader.

    It stays, because a module may be looked for many times (``importlib.util.find_spec``) before it is imported.
    """

    def __init__(self, name: str, hook: Hook) -> None:
        self._name = name
        self._hook = hook

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                return self._hooked(spec)
        return None

    def _hooked(self, spec: ModuleSpec) -> ModuleSpec:
        if hasattr(spec.loader, "exec_module"):
            loader: Any = _HookedLoader(spec.loader, self._hook)
            spec.loader = loader
        return spec


class _HookedLoader:
    """Another loader, which may serve other modules too, and the hook for this one."""

    def __init__(self, loader: Any, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        # from here on nobody sees that we were here
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook(module)


def after_import(name: str, hook: Hook) -> None:
    """Call ``hook`` with module ``name`` when it is imported, or now if it is there already."""
    module = sys.modules.get(name)
    if module is not None:
        hook(module)
    else:
        sys.meta_path.insert(0, _AfterImport(name, hook))


def limit_onnxruntime(threads: int) -> Hook:
    """Return a hook that gives sessions ``threads`` threads where their author left the number to chance.

    onnxruntime reads no environment variable for it, and takes every core in every worker.
    """

    def limit(module: ModuleType) -> None:
        session: Any = getattr(module, "InferenceSession", None)
        if session is None:
            return
        construct = session.__init__

        def __init__(self: Any, path_or_bytes: Any, sess_options: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            options = sess_options if sess_options is not None else module.SessionOptions()
            if options.intra_op_num_threads == 0:
                options.intra_op_num_threads = threads
            if options.inter_op_num_threads == 0:
                options.inter_op_num_threads = threads
            construct(self, path_or_bytes, options, *args, **kwargs)

        session.__init__ = __init__

    return limit
