"""Which names tables may have."""

from __future__ import annotations

from typing import Final

__all__ = ["LONGEST_NAME", "RESERVED"]

#: Tables of ours begin with this; no operation of a user writes to them.
RESERVED: Final = "dirtybus."
LONGEST_NAME: Final = 255
