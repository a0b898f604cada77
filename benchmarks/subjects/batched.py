"""A model whose run takes 5 ms, and half a millisecond more for each item; under several limits of a batch."""

from __future__ import annotations

import time
from typing import Final

from dirtybus import Batch, DirtyApp, action

FIXED_S: Final = 0.005
EACH_S: Final = 0.0005
MAX_WAIT_S: Final = 0.010


def run(items: list[int]) -> list[int]:
    """Take the time that so many items take together."""
    time.sleep(FIXED_S + EACH_S * len(items))
    return items


class Model(DirtyApp):
    """The same work, one by one and together."""

    def alone(self, item: int) -> int:
        return run([item])[0]

    @action(batch=Batch(max_size=2, max_wait=MAX_WAIT_S))
    def by_2(self, items: list[int]) -> list[int]:
        return run(items)

    @action(batch=Batch(max_size=4, max_wait=MAX_WAIT_S))
    def by_4(self, items: list[int]) -> list[int]:
        return run(items)

    @action(batch=Batch(max_size=8, max_wait=MAX_WAIT_S))
    def by_8(self, items: list[int]) -> list[int]:
        return run(items)

    @action(batch=Batch(max_size=32, max_wait=MAX_WAIT_S))
    def by_32(self, items: list[int]) -> list[int]:
        return run(items)

    @action(batch=Batch(max_size=64, max_wait=MAX_WAIT_S, target=0.025))
    def within_25_ms(self, items: list[int]) -> list[int]:
        return run(items)
