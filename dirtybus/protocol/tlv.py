"""GD v1 payloads: gunicorn's type-length-value format, byte for byte.

Knows only values and bytes. The format knows eight types: a tuple comes back as a list, a dict's keys as text.
"""

from __future__ import annotations

from dirtybus.protocol.tlv_format import MAX_ITEMS, MAX_STRING_BYTES
from dirtybus.protocol.tlv_reader import decode
from dirtybus.protocol.tlv_writer import encode

__all__ = ["MAX_ITEMS", "MAX_STRING_BYTES", "decode", "encode"]
