"""What the owner's loguru was told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loguru import logger


class Records(list[dict[str, Any]]):
    """The records, in order."""

    def texts(self) -> list[str]:
        return [record["message"] for record in self]

    def of(self, text: str) -> dict[str, Any]:
        """Return the one record whose text begins like this."""
        (found,) = [record for record in self if record["message"].startswith(text)]
        return found


@contextmanager
def records() -> Iterator[Records]:
    """Collect what is logged here while it lasts."""
    found = Records()
    sink = logger.add(lambda message: found.append(dict(message.record)), level=0, format="{message}")
    try:
        yield found
    finally:
        logger.remove(sink)
