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
    """A finder that finds nothing itself: it lets the others find, and adds a hook to their loader."""

    def __init__(self, name: str, hook: Hook) -> None:
        self._name = name
        self._hook = hook

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # once, and not again while the others look
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Any) -> None:
        execute, hook = loader.exec_module, self._hook

        def exec_module(module: ModuleType) -> None:
            execute(module)
            hook(module)

        loader.exec_module = exec_module


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
