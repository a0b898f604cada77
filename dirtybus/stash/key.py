"""What makes two keys the same: they are written as the same bytes. Knows no table and no port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from dirtybus.errors import DirtyError, StashError
from dirtybus.protocol.codec import decode_body, encode_body

__all__ = ["key_bytes", "key_shown", "key_text"]

_PLAIN = frozenset({str, int, bytes, bool, type(None)})


def key_bytes(key: object) -> bytes:
    """Return the bytes that stand for ``key``: the same for keys that are equal and of the same types all through.

    So ``None`` is a key like any other, and ``True``, ``1``, ``1.0`` and ``"1"`` are four keys.

    Raises:
        EncodeError: a value of this type cannot be sent.
        StashError: it could not be found again: it is unhashable, not equal to itself (nan), or holds a set, whose
            order is not the same in every process.
    """
    # encoded first: the codec bounds the depth that the walk below then relies on
    written = b"".join(encode_body(key, root="key"))
    if type(key) in _PLAIN:
        return written
    same = _canonical(key, "key")
    return written if same is key else b"".join(encode_body(same, root="key"))


def key_text(key: bytes) -> str | None:
    """Return the key itself if it is a str; None for any other key."""
    try:
        value = decode_body(key)
    except DirtyError:  # a type that is not loaded here: surely not a str
        return None
    return value if type(value) is str else None


def key_shown(key: bytes) -> str:
    """Return the key as a message shows it, cut to a readable length."""
    try:
        return f"{decode_body(key)!r:.80}"
    except DirtyError:
        return f"a key of {len(key)} bytes"


def _canonical(key: Any, place: str) -> Any:
    """Return ``key``, or its equal that all spellings of it have in common."""
    if type(key) in _PLAIN:
        return key
    _check_findable(key, place)
    if type(key) is float:
        return key or 0.0  # -0.0 equals 0.0 but is written otherwise
    if type(key) is complex:
        return complex(key.real or 0.0, key.imag or 0.0)
    parts = [(part, _canonical(part, f"{place}{where}")) for where, part in _parts(key)]
    if type(key) is tuple and any(part is not same for part, same in parts):
        return tuple(same for _, same in parts)
    return key


def _check_findable(key: Any, place: str) -> None:
    if isinstance(key, (set, frozenset)):
        raise StashError(f"{place}: a set cannot be (in) a stash key, {key!r:.80} neither; use tuple(sorted(…))")
    try:
        hash(key)
    except TypeError:
        kind = type(key).__name__
        raise StashError(f"{place}: a stash key must be hashable, a {kind} is not; use a tuple") from None
    if key != key:  # as nan, Decimal('NaN') and NaT are
        raise StashError(f"{place}: {key!r:.80} is not equal to itself, so it could not be found again as a stash key")


def _parts(key: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(key, tuple):
        return ((f"[{index}]", part) for index, part in enumerate(key))
    return ((f".{field.name}", getattr(key, field.name)) for field in fields(key)) if is_dataclass(key) else ()
