"""Tables as JSON lines: for eyes, for backups, and for another owner. Knows no port and no file.

The first line says what follows, then comes a line for each table with its rules, and one for each entry. What JSON
says without loss stands as it is; everything else as its encoded bytes, in base64.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dirtybus.errors import DirtyError, RemoteProtocolError, StashError
from dirtybus.protocol.codec import decode_body, encode_whole
from dirtybus.stash.entry import FOREVER
from dirtybus.stash.op import StashReply

__all__ = ["Exported", "ExportedTable", "entry_lines", "first_line", "read_lines", "table_line"]

_FORMAT: Final = 1
_RULES: Final = ("expires_in_s", "idle_s", "max_entries", "max_bytes", "on_full")


class ExportedTable(msgspec.Struct, frozen=True):
    """A table and the rules that it has, as `Stash.ensure` takes them."""

    table: str
    rules: Mapping[str, Any]


class Exported(msgspec.Struct, frozen=True):
    """One entry: key and value as they are stored, and the rest of its life in seconds."""

    table: str
    key: bytes
    value: bytes
    expires_in_s: float
    idle_s: float


def first_line() -> str:
    """Return the line that says what follows."""
    return _line({"dirtybus": "stash", "format": _FORMAT})


def table_line(info: Mapping[str, Any]) -> str:
    """Return the line of a table, of which `Stash.info` says this."""
    rules = {name: info[name] for name in _RULES if info.get(name)}
    return _line({"table": info["name"], "rules": rules})


def entry_lines(table: str, page: StashReply) -> Iterator[str]:
    """Return a line for each entry of a page that has values and spans."""
    now = time.time()
    for key, value, (left_s, idle_s) in zip(page.keys, page.values, page.spans, strict=True):
        spans: dict[str, float] = {}
        if left_s != FOREVER:
            spans["expires_at"] = round(now + left_s, 3)
        if idle_s != FOREVER:
            spans["idle_s"] = idle_s
        yield _line({"table": table, **_said("key", key), **_said("value", value or b""), **spans})


def read_lines(lines: Iterable[str]) -> Iterator[ExportedTable | Exported]:
    """Read what the others wrote; entries that have expired meanwhile are left out.

    Raises:
        StashError: a line is not one of ours; the message says which, and what to do.
    """
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            record = _read(json.loads(line), is_first=number == 1)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, DirtyError) as exc:
            raise StashError(
                f"line {number} is none that `export` wrote ({type(exc).__name__}: {exc}): {line.strip()[:120]!r}; "
                f"mend it or take it out. What stands before it was stored"
            ) from None
        if record is not None:
            yield record
    if not number:
        raise StashError("there is nothing to import: not even the first line that `export` writes")


def _read(plain: Any, *, is_first: bool) -> ExportedTable | Exported | None:
    if is_first:
        if plain["dirtybus"] != "stash" or plain["format"] > _FORMAT:
            raise ValueError(f"this reads format {_FORMAT} of the stash and earlier ones")
        return None
    table = plain["table"]
    if not isinstance(table, str):
        raise TypeError("the name of a table is a text")
    if "rules" in plain:
        if not isinstance(plain["rules"], dict):
            raise TypeError("the rules of a table are an object")
        return ExportedTable(table, plain["rules"])
    left_s = _number(plain, "expires_at") - time.time()
    idle_s = _number(plain, "idle_s")
    if idle_s <= 0:
        raise ValueError("idle_s is more than 0")
    if left_s <= 0:
        return None
    return Exported(table, _body(plain, "key"), _body(plain, "value"), left_s, idle_s)


def _number(plain: Mapping[str, Any], name: str) -> float:
    value = plain.get(name, FOREVER)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise TypeError(f"{name} is a number")
    return float(value)


def _said(name: str, body: bytes) -> dict[str, Any]:
    """Return a body under its name: as JSON if that says all of it, else as base64."""
    return {name: decode_body(body)} if _is_json(body) else {f"{name}_base64": base64.b64encode(body).decode("ascii")}


def _is_json(body: bytes) -> bool:
    try:
        return encode_whole(json.loads(json.dumps(decode_body(body), allow_nan=False))) == body
    except (DirtyError, TypeError, ValueError, RecursionError):
        return False


def _body(plain: Mapping[str, Any], name: str) -> bytes:
    if name in plain:
        return encode_whole(plain[name])
    body = base64.b64decode(plain[f"{name}_base64"], validate=True)
    try:
        decode_body(body)
    except RemoteProtocolError as exc:
        raise ValueError(f"{name}_base64 is not the body of a value: {exc}") from None
    except DirtyError:  # of a class that is not loaded here; whoever asks for it will have it
        return body
    return body


def _line(plain: Mapping[str, Any]) -> str:
    line = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:  # half a surrogate pair, as in names of files that are no UTF-8
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    return line
