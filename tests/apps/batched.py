"""Apps whose calls run together."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from dirtybus import Batch, DirtyApp, action, current_call

APP = "tests.apps.batched:Batched"
FOUR = Batch(max_size=4, max_wait=30)
SOON = Batch(max_size=4, max_wait=0.05)


def until_there(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.002)


class Batched(DirtyApp):
    """``FOUR`` gathers until there are four: so a test says when a batch goes, and waits for no clock."""

    def pid(self) -> int:
        return os.getpid()

    def single(self, value: Any) -> Any:
        return value

    @action(batch=FOUR)
    def double(self, items: list[int]) -> list[tuple[int, int]]:
        return [(2 * item, len(items)) for item in items]

    @action(batch=SOON)
    def soon(self, items: list[int]) -> list[tuple[int, int]]:
        return [(2 * item, len(items)) for item in items]

    @action(batch=FOUR)
    async def double_async(self, items: list[int]) -> list[tuple[int, int]]:
        await asyncio.sleep(0)
        return [(2 * item, len(items)) for item in items]

    @action(batch=FOUR)
    def pick(self, items: list[Any]) -> list[Any]:
        """Answer each as it asks: with an error, with what cannot be sent, or with itself."""
        odd = {"error": ValueError("this one"), "unsendable": object()}
        return [odd.get(item, item) if isinstance(item, str) else item for item in items]

    @action(batch=FOUR)
    def fail(self, items: list[Any]) -> list[Any]:
        raise RuntimeError(f"all {len(items)}")

    @action(batch=FOUR)
    def answer_with(self, items: list[Any]) -> Any:
        return {"short": items[:-1], "text": "four", "none": None, "map": dict.fromkeys(range(4))}[items[0]]

    @action(batch=FOUR)
    def hold(self, items: list[tuple[str, str]]) -> list[int]:
        """Say in one file that it runs, and go on when the other is there."""
        began, go_on = items[0]
        Path(began).write_text(str(len(items)))
        until_there(go_on)
        return [len(items)] * len(items)

    @action(batch=FOUR)
    def hold_while_wanted(self, items: list[str]) -> list[int]:
        """Say that it runs, and go on until nobody waits for any of them."""
        Path(items[0]).write_text("running")
        while not current_call().cancelled():
            time.sleep(0.002)
        return [0] * len(items)

    @action(batch=FOUR)
    async def hold_async(self, items: list[str]) -> list[int]:
        """Say that it runs, then sleep until it is cancelled, and say so too."""
        Path(items[0]).write_text("running")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            Path(items[0] + ".cancelled").write_text("cancelled")
            raise
        return [0] * len(items)

    @action(batch=FOUR, idempotent=True)
    def mine(self, items: list[tuple[str, str]]) -> list[int]:
        """Note each run; one that says so kills the worker."""
        for what, notes in items:
            with open(notes, "a", encoding="utf-8") as file:
                file.write(f"{what}\n")
        if any(what == "kill" for what, _ in items):
            os.kill(os.getpid(), signal.SIGKILL)
        return [len(items)] * len(items)

    @action(batch=FOUR)
    def die(self, items: list[str]) -> list[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    @action(batch=FOUR)
    def count(self, items: list[int]) -> Iterator[Sequence[Any]]:
        """Stream to each its numbers, as many as it asks for."""
        for step in range(max(items) + 1):
            yield [step if step < item else StopIteration() for item in items]

    @action(batch=FOUR)
    async def count_async(self, items: list[int]) -> AsyncIterator[Sequence[Any]]:
        for step in range(max(items) + 1):
            yield [step if step < item else StopIteration() for item in items]

    @action(batch=FOUR)
    def stumble(self, items: list[str]) -> Iterator[Sequence[Any]]:
        """One is given an error instead of its second chunk, or one list is too short."""
        yield items
        yield [ValueError("second") if item == "error" else item for item in items]
        if "short" in items:
            yield items[:-1]

    @action(batch=Batch(max_size=2, max_wait=30))
    def endless(self, items: list[int]) -> Iterator[Sequence[int]]:
        step = 0
        while True:
            yield [step] * len(items)
            step += 1

    @action(batch=Batch(max_size=4, max_wait=1, cost="bytes", max_cost=3000))
    def weigh(self, items: list[bytes]) -> list[int]:
        return [len(items)] * len(items)
