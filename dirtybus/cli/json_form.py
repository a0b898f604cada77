"""Any value that a call can return, as JSON. What JSON lacks is written in one documented way; see docs/cli.md."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, Final

__all__ = ["json_form", "json_text"]

_DIGITS_MAX: Final = 4000  # Python refuses to write, and many refuse to read, much longer numbers in decimal


def json_text(value: object) -> str:
    """Return ``value`` as JSON in one line of ASCII, which every terminal and every parser takes."""
    return json.dumps(json_form(value), allow_nan=False)


def json_form(value: object) -> Any:  # noqa: C901 - a table of types, each with its own form
    """Return ``value`` made of what JSON has: None, bool, int, float, str, list and dict with str keys."""
    match value:
        case Enum():
            return value.name
        case None | bool():
            return value
        case str():
            return str(value)
        case int():
            return int(value) if value.bit_length() < _DIGITS_MAX * 3 else hex(value)
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case bytes() | bytearray() | memoryview():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return _object(value)
        case list() | tuple():
            return [json_form(item) for item in value]
        case set() | frozenset():
            # sets have no order of their own: the same set gives the same text
            return sorted((json_form(item) for item in value), key=json.dumps)
    return _other(value)


def _object(value: Mapping[Any, Any]) -> Any:
    if all(type(key) is str for key in value):
        return {key: json_form(item) for key, item in value.items()}
    # as an object, the keys 1 and "1" would be the same
    return [[json_form(key), json_form(item)] for key, item in value.items()]


def _other(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_form(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # numpy's arrays and scalars, without loading numpy for it
        return json_form(value.tolist())
    return str(value)
