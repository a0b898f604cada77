"""Callers in another process: ``outside STYLE SOCKET RECORDS SEED``, until stdin ends. Says READY when it asks.

Styles: ``tasks`` and ``threads`` share one client each, ``cutting`` hangs up on its own calls now and then, and
``victim`` is there to be killed. Each record is one line, written when it is asked and again when it is settled.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import closing
from typing import Any

from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyError
from tests.chaos.asking import Asker, begun, is_lull, keep_asking, settle_with
from tests.chaos.mix import Plan, draw
from tests.chaos.records import CallRecord, Outcome, shown

__all__ = ["STYLES"]

_TASKS, _THREADS, _CUT = 16, 4, 4


class ClientPort:
    """A client as the port of an `Asker`."""

    def __init__(self, client: DirtyClient) -> None:
        self._client = client

    async def execute(self, app: str, action: str, args: Sequence[Any] = (), *, timeout_s: float | None = None) -> Any:
        return await self._client.request_async(app, action, args, timeout_s=timeout_s)

    def stream(
        self, app: str, action: str, args: Sequence[Any] = (), *, timeout_s: float | None = None
    ) -> AsyncGenerator[Any, None]:
        return self._client.request_stream_async(app, action, args, timeout_s=timeout_s)


class Outside:
    """One process of callers: where it asks, what it is called, where it writes, and whether it goes on."""

    def __init__(self, path: str, name: str, seed: str, records_path: str) -> None:
        self.path = path
        self.name = name
        self.seed = seed
        self._records = os.open(records_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._is_wanted = True
        threading.Thread(target=self._wait_for_the_end, daemon=True).start()

    def goes_on(self) -> bool:
        return self._is_wanted

    def write(self, record: CallRecord) -> None:
        """Write one line at once, so that a kill leaves whole lines."""
        os.write(self._records, record.as_line().encode())

    def _wait_for_the_end(self) -> None:
        sys.stdin.read()
        self._is_wanted = False

    # --- tasks ---

    async def ask_with_tasks(self, *, is_cut: bool = False) -> None:
        client = DirtyClient(self.path)
        asker = Asker(ClientPort(client), self.name, self.write, is_cut=is_cut)
        async with asyncio.TaskGroup() as tasks:
            for number in range(_TASKS):
                mine = f"{self.name}.{number}"
                tasks.create_task(keep_asking(asker, mine, random.Random(f"{self.seed}/{number}"), self.goes_on))
        await client.close_async()

    async def cut_again_and_again(self) -> None:
        """Start some calls, hang up a moment later, and begin anew."""
        numbers = random.Random(self.seed)
        turn = 0
        while self.goes_on():
            turn += 1
            client = DirtyClient(self.path)
            await client.connect_async()
            asker = Asker(ClientPort(client), self.name, self.write, is_cut=True)
            async with asyncio.TaskGroup() as tasks:
                for number in range(_CUT):
                    token = f"{self.name}-{turn}.{number}"
                    tasks.create_task(asker.ask(draw(numbers, token), token))
                await asyncio.sleep(numbers.uniform(0.0, 0.2))
                await client.close_async()
            await client.close_async()  # one that had not asked yet has connected anew
            await asyncio.sleep(numbers.uniform(0.1, 0.4))

    # --- threads ---

    def ask_with_threads(self) -> None:
        client = DirtyClient(self.path)
        threads = [threading.Thread(target=self._keep_asking, args=(client, number)) for number in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()

    def _keep_asking(self, client: DirtyClient, thread: int) -> None:
        numbers = random.Random(f"{self.seed}/{thread}")
        number = 0
        while self.goes_on():
            if is_lull():
                time.sleep(0.02)
                continue
            number += 1
            token = f"{self.name}.{thread}-{number}"
            plan = draw(numbers, token, can_leave=False)  # a thread that waits cannot be told to give up
            record = begun(plan, token, self.name)
            self.write(record)
            chunks: list[Any] = []
            try:
                value, outcome = _ask(client, plan, chunks)
            except DirtyError as exc:
                settle_with(record, exc, chunks)
            else:
                record.settle(outcome, time.monotonic(), value=value)
            self.write(record)


def _ask(client: DirtyClient, plan: Plan, chunks: list[Any]) -> tuple[Any, Outcome]:
    timeout_s = plan.deadline_s or 0
    if not plan.is_stream:
        return shown(client.request(plan.app, plan.kind, plan.arguments, timeout_s=timeout_s)), Outcome.ANSWER
    stream: Any = client.request_stream(plan.app, plan.kind, plan.arguments, timeout_s=timeout_s)
    with closing(stream):
        for chunk in stream:
            chunks.append(chunk)
            if len(chunks) == plan.leave_after_chunks:
                return chunks, Outcome.CANCELLED
            time.sleep(plan.read_pause_s)
    return chunks, Outcome.ANSWER


STYLES: dict[str, Callable[[Outside], None]] = {
    "tasks": lambda outside: asyncio.run(outside.ask_with_tasks()),
    "threads": Outside.ask_with_threads,
    "cutting": lambda outside: asyncio.run(outside.cut_again_and_again()),
    "victim": lambda outside: asyncio.run(outside.ask_with_tasks(is_cut=True)),
}


def main(style: str, path: str, records_path: str, seed: str) -> None:
    # the name begins each token: two processes of one style must not share it
    outside = Outside(path, f"{style}{os.getpid()}", f"{seed}/{style}", records_path)
    print("READY", flush=True)
    STYLES[style](outside)


if __name__ == "__main__":
    main(*sys.argv[1:])
