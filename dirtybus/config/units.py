"""Spans of time and sizes as people write them. Knows no setting by name."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from dirtybus.errors import ConfigError

__all__ = ["read_size", "read_span"]

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,9})?"
_SPAN_UNITS: Final = {
    "d": Decimal(86_400),
    "h": Decimal(3_600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
}
# each unit at most once and the largest first, so that "5m1h" is taken for the slip that it is
_SPAN: Final = re.compile(r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in _SPAN_UNITS), re.ASCII)
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([kmgt]?i?b)?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def read_span(text: str) -> float:
    """Return the seconds that a text means: ``"90"``, ``"90s"``, ``"5m"``, ``"1h30m"``, ``"300ms"``, ``"2d"``.

    Raises:
        ConfigError: not such a text. Negative spans and units in capitals are not.
    """
    span = text.strip()
    if re.fullmatch(_NUMBER, span, re.ASCII):
        return float(span)
    match = _SPAN.fullmatch(span)
    if not span or match is None:
        raise ConfigError(f"{text!r} is not a span of time; write seconds, or text such as '90s', '5m' or '1h30m'")
    counts = zip(match.groups(), _SPAN_UNITS.values(), strict=True)
    return float(sum((Decimal(count) * seconds for count, seconds in counts if count), Decimal()))


def read_size(text: str) -> int:
    """Return the bytes that a text means: ``"4096"``, ``"512MB"`` (10^6 each), ``"64MiB"`` (2^20 each), ``"2GB"``.

    Raises:
        ConfigError: not such a text, or not a whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = (match[2] or "b").lower() if match else "ib"
    if match is None or unit == "ib":
        raise ConfigError(f"{text!r} is not a size; write bytes, or text such as '512MB' (10^6) or '64MiB' (2^20)")
    base = 1024 if unit.endswith("ib") else 1000
    size = Decimal(match[1]) * base ** _POWERS[unit.removesuffix("b").removesuffix("i")]
    if size != int(size):
        raise ConfigError(f"{text!r} is not a whole number of bytes")
    return int(size)
