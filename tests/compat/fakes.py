"""An arbiter and a transport without a world, for sessions of GD v1 clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from dirtybus.arbiter.calls import Request
from dirtybus.arbiter.gd1_session import Gd1Session
from dirtybus.config import DirtyConfig
from dirtybus.errors import DirtyError
from dirtybus.pool.model import CallId
from dirtybus.protocol.codec import encode_body
from dirtybus.protocol.frames import GD1, FrameBuffer
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.protocol.gd1_messages import Message
from dirtybus.stash.keeper import Keeper
from dirtybus.transport.sinks import Sink


class FakeArbiter:
    """Takes calls and remembers them; whoever tests says what becomes of them."""

    def __init__(self, **settings: object) -> None:
        self.config = DirtyConfig.of("shop.ml:Model", workers=4, **settings)
        self.stash = Keeper()
        self.requests: list[Request] = []
        self.sinks: list[Sink] = []
        self.cancelled: list[int] = []
        self.credits: list[tuple[int, int]] = []
        self.refusal: DirtyError | None = None
        self.target = 4

    def submit(self, request: Request, sink: Sink) -> CallId:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        self.sinks.append(sink)
        return CallId(len(self.sinks))

    def cancel(self, call_id: CallId) -> None:
        self.cancelled.append(call_id)

    def credit(self, call_id: CallId, chunks: int) -> None:
        self.credits.append((call_id, chunks))

    def status(self) -> Mapping[str, Any]:
        worker = {"worker": 7, "pid": 100, "state": "busy", "apps": ["shop.ml:Model"], "age_s": 1.5}
        booting = {"worker": 3, "pid": 101, "state": "booting", "apps": ["shop.ml:Model"], "age_s": 0.1}
        return {"pid": 99, "target": self.target, "workers": [worker, booting]}

    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        assert verb == "scale"
        self.target = max(2, arguments["workers"])
        return {"workers": self.target, "asked": arguments["workers"], "note": "an app needs 2 workers"}


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, on_lost: Callable[[Exception | None], None]) -> None:
        super().__init__()
        self.written = bytearray()
        self.unsent_bytes = 0
        self._on_lost = on_lost
        self._reads = True
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_reading(self) -> bool:
        return self._reads

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._on_lost(None)

    def abort(self) -> None:
        self.close()


class Client:
    """The client's end of a session: what it asks goes in, what it is told comes out, with ids."""

    def __init__(self, arbiter: FakeArbiter) -> None:
        self.arbiter = arbiter
        self.closed: list[Gd1Session] = []
        self.session = Gd1Session(arbiter, self.closed.append)
        self.transport = FakeTransport(self.session.connection_lost)
        self.session.connection_made(self.transport)
        self._frames = FrameBuffer(MAX_PAYLOAD_BYTES, versions=frozenset({GD1}))

    def ask(self, message: Message, id: int = 1) -> None:  # noqa: A002 - as in Frame
        self.session.data_received(encode_message(message, id))

    def told(self) -> list[tuple[int, Message]]:
        """Return what came since the last time."""
        self._frames.feed(bytes(self.transport.written))
        self.transport.written.clear()
        told = []
        while (frame := self._frames.next_frame()) is not None:
            told.append((frame.id, decode_message(frame)))
        return told

    async def told_soon(self, count: int = 1) -> list[tuple[int, Message]]:
        """Wait until so many words have come."""
        told: list[tuple[int, Message]] = []

        def has_come() -> bool:
            told.extend(self.told())
            return len(told) >= count

        await _until(has_come)
        return told

    async def asked_soon(self, count: int) -> None:
        """Wait until so many calls have reached the arbiter."""
        await _until(lambda: len(self.arbiter.requests) >= count)


async def _until(has_come: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not has_come():
            await asyncio.sleep(0.001)


def body(value: object) -> bytes:
    """Return ``value`` as a worker sends it."""
    return b"".join(encode_body(value))
