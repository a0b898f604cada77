"""Calls of different callers run as one: a model whose work costs nearly the same for one sentence as for sixteen.

Run it: python examples/batching.py
"""

from __future__ import annotations

import asyncio
import time

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import Batch, DirtyApp, DirtyBus, InferenceRequested, action
from dirtybus.events import ArbiterStarting, ShutdownRequested

SENTENCES = [f"sentence number {number}" for number in range(64)]


class Embedder(DirtyApp):
    """Stands for a neural network: a call costs 20 ms, each sentence in it 1 ms more."""

    def embed_alone(self, text: str) -> list[int]:
        time.sleep(0.020 + 0.001)
        return [len(word) for word in text.split()]

    @action(batch=Batch(max_size=16, max_wait=0.005))
    def embed(self, texts: list[str]) -> list[list[int] | ValueError]:
        """Each caller gives one text and gets one list; here they come together."""
        time.sleep(0.020 + 0.001 * len(texts))
        return [[len(word) for word in text.split()] if text else ValueError("an empty text") for text in texts]


def main() -> None:
    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["batching:Embedder"], workers=1, gate={"max_concurrent": 64})
    bus.install(manager, bcc)

    async def embed_all(name: str) -> list[list[int]]:
        began_at = time.perf_counter()
        events = [InferenceRequested("batching:Embedder", name, (text,)) for text in SENTENCES]
        found = await asyncio.gather(*map(bus.ask, events))
        print(f"{name}: {len(found)} sentences, {len(found) / (time.perf_counter() - began_at):.0f} a second")
        return found

    @bcc.receiver(ArbiterStarting)
    async def compare() -> None:
        try:
            await bus.ask(InferenceRequested("batching:Embedder", "embed_alone", ("warm",)))  # the worker is ready now
            alone, together = await embed_all("embed_alone"), await embed_all("embed")
            print("the same answers:", alone == together)
            outcomes = await asyncio.gather(
                *(bus.ask(InferenceRequested("batching:Embedder", "embed", (text,))) for text in ("well", "")),
                return_exceptions=True,
            )
            print(*outcomes, sep=", ")
        finally:
            bus.post(ShutdownRequested("all embedded"))

    manager.launch_blocking()


if __name__ == "__main__":
    main()
