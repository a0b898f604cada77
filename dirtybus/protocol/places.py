"""Where in a value something stands, e.g. ``args[0]['model'].name``: found on the way up, so success pays nothing.

Must never learn what is being written, nor how.
"""

from __future__ import annotations

from collections.abc import Iterator

from dirtybus.errors import EncodeError

__all__ = ["Unsendable", "no_room", "remedy_for", "step_to_key", "unsendable_type"]

_SHOWN_CHARS = 60
_SHOWN_STEPS = 16
_READABLE = frozenset({str, bytes, bool, float, type(None)})
_SAFE_INT_BITS = 64


class Unsendable(Exception):
    """A value cannot be written. Each container that it passes on its way up adds one step to its place."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason = reason
        self._steps: list[str] = []

    def inside(self, step: str) -> None:
        self._steps.append(step)

    def to_error(self, root: str | tuple[str, ...]) -> EncodeError:
        """Return the public error; ``root`` names the whole value, or, as a tuple, each of its items."""
        steps = self._steps[::-1]
        if isinstance(root, tuple):
            root = root[int(steps.pop(0)[1:-1])] if steps else f"({', '.join(root)})"
        if len(steps) > _SHOWN_STEPS:
            steps = [*steps[: _SHOWN_STEPS // 2], "…", *steps[-_SHOWN_STEPS // 2 :]]
        place = root + "".join(steps)
        return EncodeError(f"{place}: {self._reason}", place)


def step_to_key(key: object) -> str:
    """Return how a value of a dict is reached; only keys whose repr is ours to trust and short are spelled out."""
    kind = type(key)
    if kind in _READABLE or (kind is int and key.bit_length() <= _SAFE_INT_BITS):  # type: ignore[attr-defined]
        shown = repr(key)
        return f"[{shown}]" if len(shown) <= _SHOWN_CHARS else f"[{shown[:_SHOWN_CHARS]}…]"
    return f"[<{kind.__qualname__}>]"


def unsendable_type(kind: type, remedy: str) -> Unsendable:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Unsendable(f"cannot send a value of type {name}; {remedy}")


def remedy_for(kind: type) -> str:
    """Return what to do instead of sending a ``kind``."""
    if issubclass(kind, memoryview):
        return "send bytes(view)"
    for base in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset):
        if issubclass(kind, base):
            return f"a subclass of {base.__name__} would come back as another type: send {base.__name__}(value)"
    if issubclass(kind, Iterator):
        return "an iterator can be read once, here: send list(value), or yield its items from a generator action"
    if hasattr(kind, "__array__"):
        return "send it as a numpy array"
    return "send plain data (numbers, text, bytes, lists, dicts…), a dataclass or a numpy array"


def no_room(root: str | tuple[str, ...]) -> EncodeError:
    """Return the error for a value that may be sound, met where the Python stack is nearly used up."""
    place = root if isinstance(root, str) else ", ".join(root)
    return EncodeError(
        f"{place}: nested too deep for what is left of the Python stack; send it from a shallower call, or flatten it",
        place,
    )
