"""What a process prints, line by line, to the last word. Knows nothing of who prints it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import IO

__all__ = ["Output"]

_READ_BYTES = 64 * 1024
#: a grandchild that prints on and on must not keep us
_LAST_READS = 16
_MAX_LINE_BYTES = 64 * 1024


class Output(asyncio.Protocol):
    """Reads a pipe and hands on each line that is not blank; made by `open`."""

    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._on_line = on_line
        self._transport: asyncio.BaseTransport | None = None
        self._part = b""
        self._hush: _Hush | None = None

    @classmethod
    async def open(cls, pipe: IO[bytes], on_line: Callable[[str], None]) -> Output:
        """Begin to read ``pipe``, which belongs to the output from now on."""
        output = cls(pipe, on_line)
        await asyncio.get_running_loop().connect_read_pipe(lambda: output, pipe)
        return output

    def when_quiet(self, then: Callable[[], object], *, for_s: float, within_s: float) -> None:
        """Call ``then`` when something was printed and nothing more for ``for_s``, after ``within_s`` at the latest.

        Not at all when the output is closed before that.
        """
        if self._hush is not None:
            self._hush.cancel()
        self._hush = _Hush(then, for_s, within_s)

    def finish(self) -> None:
        """Read what is left, now (the loop may not have come to it yet), and close. Nothing is heard after this."""
        if self._transport is not None and not self._transport.is_closing():
            with suppress(BlockingIOError):
                for _ in range(_LAST_READS):
                    if not (last := os.read(self._pipe.fileno(), _READ_BYTES)):
                        break
                    self.data_received(last)
        self._say_rest()
        self.close()

    def close(self) -> None:
        """Read no more. May be called twice."""
        if self._hush is not None:
            self._hush.cancel()
        if self._transport is not None:
            self._transport.close()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._hush is not None:
            self._hush.put_off()
        *lines, self._part = (self._part + data).split(b"\n")
        if len(self._part) > _MAX_LINE_BYTES:
            lines.append(self._part)
            self._part = b""
        for line in lines:
            self._say(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._say_rest()

    def _say_rest(self) -> None:
        """Say what has no newline at its end."""
        part, self._part = self._part, b""
        self._say(part)

    def _say(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._on_line(text)


class _Hush:
    """Waits until nothing was heard for a while."""

    def __init__(self, then: Callable[[], object], for_s: float, within_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._then = then
        self._for_s = for_s
        self._last = self._loop.call_later(within_s, self._tell)
        self._next: asyncio.TimerHandle | None = None

    def put_off(self) -> None:
        """Something was heard."""
        if self._next is not None:
            self._next.cancel()
        if not self._last.cancelled():
            self._next = self._loop.call_later(self._for_s, self._tell)

    def cancel(self) -> None:
        """Wait no more. May be called twice."""
        self._last.cancel()
        if self._next is not None:
            self._next.cancel()

    def _tell(self) -> None:
        self.cancel()
        self._then()
