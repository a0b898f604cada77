"""Texts that are no valid Unicode, spelled out so that they can be written. Knows no message."""

from __future__ import annotations

__all__ = ["spelled_out"]


def spelled_out(value: object) -> object:
    """Return the plain ``value`` with each half of a surrogate pair in its texts spelled with a backslash."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {spelled_out(key): spelled_out(item) for key, item in value.items()}
        case list() | tuple():
            return [spelled_out(item) for item in value]
    return value
