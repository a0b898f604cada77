"""gunicorn's names for the numbers of its protocol."""

from __future__ import annotations

from typing import Final

from dirtybus.protocol import frames
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES
from dirtybus.protocol.gd1_messages import Kind, ManageVerb, StashVerb

__all__ = [
    "HEADER_FORMAT",
    "HEADER_SIZE",
    "MAGIC",
    "MANAGE_OP_ADD",
    "MANAGE_OP_REMOVE",
    "MAX_MESSAGE_SIZE",
    "MSG_TYPE_CHUNK",
    "MSG_TYPE_CHUNK_STR",
    "MSG_TYPE_END",
    "MSG_TYPE_END_STR",
    "MSG_TYPE_ERROR",
    "MSG_TYPE_ERROR_STR",
    "MSG_TYPE_FROM_STR",
    "MSG_TYPE_MANAGE",
    "MSG_TYPE_MANAGE_STR",
    "MSG_TYPE_REQUEST",
    "MSG_TYPE_REQUEST_STR",
    "MSG_TYPE_RESPONSE",
    "MSG_TYPE_RESPONSE_STR",
    "MSG_TYPE_STASH",
    "MSG_TYPE_STASH_STR",
    "MSG_TYPE_STATUS",
    "MSG_TYPE_STATUS_STR",
    "MSG_TYPE_TO_STR",
    "STASH_OP_CLEAR",
    "STASH_OP_DELETE",
    "STASH_OP_DELETE_TABLE",
    "STASH_OP_ENSURE",
    "STASH_OP_EXISTS",
    "STASH_OP_GET",
    "STASH_OP_INFO",
    "STASH_OP_KEYS",
    "STASH_OP_PUT",
    "STASH_OP_TABLES",
    "VERSION",
]

MAGIC: Final = frames.MAGIC
VERSION: Final = frames.GD1
HEADER_FORMAT: Final = frames.HEADER.format
HEADER_SIZE: Final = frames.HEADER.size
MAX_MESSAGE_SIZE: Final = MAX_PAYLOAD_BYTES

MSG_TYPE_REQUEST: Final = int(Kind.REQUEST)
MSG_TYPE_RESPONSE: Final = int(Kind.RESPONSE)
MSG_TYPE_ERROR: Final = int(Kind.ERROR)
MSG_TYPE_CHUNK: Final = int(Kind.CHUNK)
MSG_TYPE_END: Final = int(Kind.END)
MSG_TYPE_STASH: Final = int(Kind.STASH)
MSG_TYPE_STATUS: Final = int(Kind.STATUS)
MSG_TYPE_MANAGE: Final = int(Kind.MANAGE)

MSG_TYPE_REQUEST_STR: Final = "request"
MSG_TYPE_RESPONSE_STR: Final = "response"
MSG_TYPE_ERROR_STR: Final = "error"
MSG_TYPE_CHUNK_STR: Final = "chunk"
MSG_TYPE_END_STR: Final = "end"
MSG_TYPE_STASH_STR: Final = "stash"
MSG_TYPE_STATUS_STR: Final = "status"
MSG_TYPE_MANAGE_STR: Final = "manage"
MSG_TYPE_TO_STR: Final[dict[int, str]] = {kind.value: kind.name.lower() for kind in Kind}
MSG_TYPE_FROM_STR: Final[dict[str, int]] = {name: kind for kind, name in MSG_TYPE_TO_STR.items()}

STASH_OP_PUT: Final = int(StashVerb.PUT)
STASH_OP_GET: Final = int(StashVerb.GET)
STASH_OP_DELETE: Final = int(StashVerb.DELETE)
STASH_OP_KEYS: Final = int(StashVerb.KEYS)
STASH_OP_CLEAR: Final = int(StashVerb.CLEAR)
STASH_OP_INFO: Final = int(StashVerb.INFO)
STASH_OP_ENSURE: Final = int(StashVerb.ENSURE)
STASH_OP_DELETE_TABLE: Final = int(StashVerb.DELETE_TABLE)
STASH_OP_TABLES: Final = int(StashVerb.TABLES)
STASH_OP_EXISTS: Final = int(StashVerb.EXISTS)

MANAGE_OP_ADD: Final = int(ManageVerb.ADD)
MANAGE_OP_REMOVE: Final = int(ManageVerb.REMOVE)
