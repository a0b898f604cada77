"""The smallest whole program: a stateful app in two workers, asked through events before any worker is ready.

Run it: python examples/hello.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, InferenceRequested
from dirtybus.events import ArbiterStarting, ShutdownRequested


class Greeter(DirtyApp):
    """Lives in the workers. What `init` makes stays there from call to call: a model, a connection, here a count."""

    def init(self) -> None:
        self._greeted = 0

    def greet(self, name: str) -> str:
        self._greeted += 1
        return f"Hello, {name}! You are number {self._greeted} in process {os.getpid()}."

    def spell(self, text: str) -> Iterator[str]:
        """A generator is streamed: each word leaves the worker as soon as it is there."""
        yield from text.split()


def main() -> None:
    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["hello:Greeter"], workers=2)
    bus.install(manager, bcc)

    @bcc.receiver(ArbiterStarting)
    async def greet_everybody() -> None:
        """No worker is ready yet, and nobody has to care: the events are held until one is."""
        try:
            names = ["Ada", "Grace", "Linus", "Barbara"]
            asked = [bus.ask(InferenceRequested("hello:Greeter", "greet", args=(name,))) for name in names]
            for greeting in await asyncio.gather(*asked):
                print(greeting)
            async for word in bus.stream(InferenceRequested("hello:Greeter", "spell", args=("That was all.",))):
                print(word, end=" ", flush=True)
            print()
        finally:
            # without it the program would wait for more events, as a bot or a server wants to
            bus.post(ShutdownRequested("every greeting is out"))

    manager.launch_blocking()


# the workers import this file for its app; only the process that was started by hand may start a bus
if __name__ == "__main__":
    main()
