"""Import paths, ``module:name``: how an object is named to another process. Imports nothing by such a name."""

from __future__ import annotations

import sys

from dirtybus.errors import ConfigError

__all__ = ["is_import_path", "path_of"]


def is_import_path(text: object) -> bool:
    """True for the text ``package.module:name``, whether or not there is such a thing."""
    if not isinstance(text, str):
        return False
    module, sep, name = text.partition(":")
    return bool(sep) and all(part.isidentifier() for part in (*module.split("."), name))


def path_of(thing: object) -> str:
    """Return the import path by which a worker will find a class or function.

    Raises:
        ConfigError: no other process can find it: a lambda, a local, a method, or anything of ``__main__``.
    """
    module = getattr(thing, "__module__", None)
    name = getattr(thing, "__qualname__", None)
    if module == "__main__":
        raise ConfigError(f"{name} lives in __main__, which a worker does not have; move it into a module of its own")
    path = f"{module}:{name}"
    if not is_import_path(path) or getattr(sys.modules.get(str(module)), str(name), None) is not thing:
        raise ConfigError(f"{thing!r} cannot be found by name from a worker; define it at the top level of a module")
    return path
