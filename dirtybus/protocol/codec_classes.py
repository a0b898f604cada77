"""Classes travel by name: how a name is made, and how it finds its class again.

Also what of an instance travels: its attributes, whoever set them. Looking a name up in
`loaded_types` runs no code of the user's.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dirtybus.errors import DecodeError
from dirtybus.protocol.places import unsendable_type

__all__ = ["Resolver", "importable_types", "is_rebuildable_dataclass", "loaded_types", "name_of", "state_of"]

_HEAP_TYPE_FLAG = 1 << 9

#: Module and qualified name to class; raises `DecodeError` when there is none.
Resolver = Callable[[str, str], type]


def name_of(kind: type) -> tuple[str, str]:
    """Return the module and qualified name under which the other side will find ``kind``.

    Raises:
        Unsendable: it cannot be found by name, so it would not arrive.
    """
    module, qualname = kind.__module__, kind.__qualname__
    if module == "__main__":
        raise unsendable_type(kind, "another process has another __main__: move the class to a module of its own")
    if "<locals>" in qualname:
        raise unsendable_type(kind, "a class made inside a function has no importable name: move it to module level")
    if _find(sys.modules.get(module), qualname) is not kind:
        raise unsendable_type(kind, f"{qualname} of module {module} is not this class, so it would not be found again")
    return module, qualname


def is_rebuildable_dataclass(kind: type) -> bool:
    """Whether an instance is made by ``object.__new__`` and its attributes: decorated itself, no built-in as base."""
    if "__dataclass_fields__" not in vars(kind):
        return False
    return all(base is object or base.__flags__ & _HEAP_TYPE_FLAG for base in kind.__mro__)


def state_of(value: Any) -> dict[str, object]:
    """Return a dataclass's fields that are set, then whatever else its instance was given."""
    state = {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if hasattr(value, field.name)
    }
    for name, item in getattr(value, "__dict__", {}).items():
        if not name.isidentifier():
            raise unsendable_type(type(value), f"its attribute {name!r} is not a name")
        state.setdefault(name, item)
    return state


def loaded_types(module: str, qualname: str) -> type:
    """Return a class of a module that is loaded already; never imports.

    Raises:
        DecodeError: the module is not loaded in this process, or has no such class.
    """
    found = sys.modules.get(module)
    if found is None:
        raise _unknown(module, qualname, f"import {module} in this process first, or send plain values")
    return _class_in(found, module, qualname)


def importable_types(module: str, qualname: str) -> type:
    """Return a class, importing its module when need be; for processes that run the user's code anyway.

    Raises:
        DecodeError: the module cannot be imported, or has no such class.
    """
    try:
        found = importlib.import_module(module)
    except Exception as exc:
        raise _unknown(module, qualname, f"importing {module} failed: {type(exc).__name__}: {exc}") from exc
    return _class_in(found, module, qualname)


def _class_in(found: ModuleType, module: str, qualname: str) -> type:
    kind = _find(found, qualname)
    if not isinstance(kind, type):
        raise _unknown(module, qualname, "there is no class of that name; do both sides run the same code?")
    return kind


def _find(found: object, qualname: str) -> object:
    """Follow the dotted name through ``__dict__``s only: attribute access could run a module's ``__getattr__``."""
    for name in qualname.split("."):
        if not isinstance(found, (ModuleType, type)):
            return None
        found = vars(found).get(name)
    return found


def _unknown(module: str, qualname: str, remedy: str) -> DecodeError:
    shown = f"{module}.{qualname}"[:200]
    return DecodeError(f"the class {shown} cannot be found here: {remedy}", {"type": shown})
