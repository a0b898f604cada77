"""The numbers of gunicorn's TLV format, and blocks of equal numbers. Neither reads nor writes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from struct import Struct
from typing import Final

MAX_STRING_BYTES: Final = 64 * 1024 * 1024
MAX_ITEMS: Final = 1024 * 1024

NONE: Final = 0x00
BOOL: Final = 0x01
INT: Final = 0x05
FLOAT: Final = 0x06
BYTES: Final = 0x10
STR: Final = 0x11
LIST: Final = 0x20
DICT: Final = 0x21

# Lists of one kind of number go through struct in blocks: `x` leaves a gap where the type byte belongs.
LETTER: Final = {INT: "xq", FLOAT: "xd"}
NUMBER_BYTES: Final = 9
BLOCK_ITEMS: Final = 256
#: Shorter lists are faster one by one.
LEAST_ITEMS: Final = 16


@functools.cache
def _block(code: int, items: int) -> Struct:
    return Struct(">" + LETTER[code] * items)


def blocks(code: int, count: int) -> Sequence[Struct]:
    """Return the structs that cover ``count`` numbers; only the last may be short."""
    whole, rest = divmod(count, BLOCK_ITEMS)
    return [_block(code, BLOCK_ITEMS)] * whole + ([_block(code, rest)] if rest else [])
