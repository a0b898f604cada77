"""What gunicorn's GD v1 protocol can say: its kinds, verbs and messages as plain values. Knows no byte of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Answer",
    "Ask",
    "Chunk",
    "End",
    "Error",
    "Kind",
    "Manage",
    "ManageVerb",
    "Message",
    "Request",
    "Response",
    "StashAsk",
    "StashVerb",
    "StatusAsk",
]


class Kind(enum.IntEnum):
    """What a frame of version 1 is."""

    REQUEST = 0x01
    RESPONSE = 0x02
    ERROR = 0x03
    CHUNK = 0x04
    END = 0x05
    STASH = 0x10
    STATUS = 0x11
    MANAGE = 0x12


class StashVerb(enum.IntEnum):
    """What to do with a table, by gunicorn's numbers."""

    PUT = 1
    GET = 2
    DELETE = 3
    KEYS = 4
    CLEAR = 5
    INFO = 6
    ENSURE = 7
    DELETE_TABLE = 8
    TABLES = 9
    EXISTS = 10


class ManageVerb(enum.IntEnum):
    """What to do with the workers, by gunicorn's numbers."""

    ADD = 1
    REMOVE = 2


# --- what a client asks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """Run ``action`` of ``app``."""

    app: str
    action: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StashAsk:
    """One stash operation. ``key``, ``value`` and ``pattern`` of None are not sent: gunicorn means the same by both."""

    verb: int
    table: str = ""
    key: Any = None
    value: Any = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class StatusAsk:
    """What is going on?"""


@dataclass(frozen=True, slots=True)
class Manage:
    """Add or remove ``count`` workers."""

    verb: int
    count: int = 1


# --- what it is told ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Response:
    """The one result."""

    result: Any


@dataclass(frozen=True, slots=True)
class Error:
    """There is no (further) result; ``error`` is what ``to_dict`` of an error gave."""

    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One of several results."""

    value: Any


@dataclass(frozen=True, slots=True)
class End:
    """There are no more chunks."""


Ask = Request | StashAsk | StatusAsk | Manage
Answer = Response | Error | Chunk | End
Message = Ask | Answer
