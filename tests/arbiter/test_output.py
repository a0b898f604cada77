from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dirtybus.arbiter.output import Output

LONG_S = 600.0


class Pipe:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told = asyncio.Event()
        read, self._write = os.pipe()
        self.ours = os.fdopen(read, "rb", 0)
        self.output: Output

    def print(self, text: str) -> None:
        os.write(self._write, f"{text}\n".encode())

    def close(self) -> None:
        os.close(self._write)
        self.output.close()


@pytest_asyncio.fixture
async def pipe() -> AsyncIterator[Pipe]:
    pipe = Pipe()
    pipe.output = await Output.open(pipe.ours, pipe.lines.append)
    yield pipe
    pipe.close()


async def test_it_is_quiet_when_something_was_printed_and_then_nothing_more(pipe: Pipe) -> None:
    pipe.output.when_quiet(pipe.told.set, for_s=0.05, within_s=LONG_S)
    for number in range(5):
        pipe.print(str(number))
        await asyncio.sleep(0.01)
    await asyncio.wait_for(pipe.told.wait(), 20)
    assert pipe.lines == list("01234")


async def test_who_prints_nothing_is_waited_for_to_the_end(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    pipe.output.when_quiet(pipe.told.set, for_s=0.01, within_s=0.2)
    await asyncio.wait_for(pipe.told.wait(), 20)
    assert loop.time() - began_at >= 0.19


async def test_who_prints_on_and_on_is_not_waited_for_any_longer(pipe: Pipe) -> None:
    pipe.output.when_quiet(pipe.told.set, for_s=LONG_S, within_s=0.1)
    pipe.print("on")
    await asyncio.wait_for(pipe.told.wait(), 20)


@pytest.mark.parametrize("is_heard", [True, False])
async def test_after_the_end_nothing_is_told(pipe: Pipe, is_heard: bool) -> None:
    pipe.output.when_quiet(pipe.told.set, for_s=0.01, within_s=0.02)
    if is_heard:
        pipe.print("last words")
    pipe.output.finish()
    assert pipe.lines == ["last words"] * is_heard
    await asyncio.sleep(0.1)  # several times as long as it would take
    assert not pipe.told.is_set()
