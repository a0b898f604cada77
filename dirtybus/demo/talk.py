"""The talk: one question to the language model, and its answer as the tokens arrive."""

from __future__ import annotations

import time
from typing import Final, TextIO

from dirtybus.bus import DirtyBus
from dirtybus.events import InferenceRequested

__all__ = ["CHAT_APP", "Talk"]

CHAT_APP: Final = "dirtybus.demo.app:Chat"
_PROMPT: Final = "In one sentence, what is an event bus?"
_MAX_TOKENS: Final = 48


class Talk:
    """Ask once and write what comes.

    Args:
        out: where the tokens go.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        #: one line on how it went
        self.told = "not reached"

    async def listen(self, bus: DirtyBus) -> None:
        """Ask, and write each piece as it arrives. Raises as `DirtyBus.stream`."""
        asked_at, pieces = time.monotonic(), 0
        self._write(f"\nSmolLM2 is asked: {_PROMPT}\n> ")
        try:
            async for piece in bus.stream(InferenceRequested(CHAT_APP, "reply", args=(_PROMPT, _MAX_TOKENS))):
                pieces += 1
                self._write(piece)
        finally:
            took_s = time.monotonic() - asked_at
            self.told = f"{pieces} pieces streamed in {took_s:.1f} s"
            self._write("\n\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
