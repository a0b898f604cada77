"""Values and spans of time as people read them. Knows no terminal: its width is an argument."""

from __future__ import annotations

import itertools
import pprint

from dirtybus.cli.json_form import json_text

__all__ = ["human_form", "size_text", "span_text"]

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def human_form(value: object, *, width: int = 100) -> str:
    """Return ``value`` for reading: text as it is, all else as Python writes it, over several lines if it is long."""
    if isinstance(value, str):
        return value
    try:
        return pprint.pformat(value, width=width, sort_dicts=False)
    except ValueError:  # Python refuses to write an int of over 4300 digits
        return json_text(value)


def size_text(size_bytes: int) -> str:
    """Return a size in the unit that fits: ``512 B``, ``1.5 MiB``."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def span_text(span_s: float) -> str:
    """Return a span of time with its two largest units: ``2h14m``, ``3m05s``, ``45s``."""
    left = int(span_s)
    for (unit, size), (small_unit, small_size) in itertools.pairwise(_UNITS):
        if left >= size:
            return f"{left // size}{unit}{left % size // small_size:02d}{small_unit}"
    return f"{left}s"
