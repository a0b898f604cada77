"""One attached client that speaks GD v1: gunicorn's own, unmodified. Knows no worker and no pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import structs

from dirtybus import log
from dirtybus.arbiter.calls import Request, next_caller
from dirtybus.arbiter.gd1_call import Gd1Call
from dirtybus.arbiter.gd1_questions import managed, stash_op, stash_result, status_result
from dirtybus.config import DirtyConfig
from dirtybus.errors import (
    DirtyAppNotFoundError,
    DirtyError,
    DirtyNoWorkersAvailableError,
    QueueFull,
    RemoteProtocolError,
)
from dirtybus.in_thread import in_thread
from dirtybus.pool.model import CallId
from dirtybus.protocol import gd1_messages as gd1
from dirtybus.protocol.arguments import encode_arguments
from dirtybus.protocol.frames import GD1, LARGE_BYTES, Frame, FrameBuffer
from dirtybus.protocol.gd1 import MAX_PAYLOAD_BYTES, decode_message, encode_message
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops import StashOp
from dirtybus.stash.ops_many import Page
from dirtybus.transport.sinks import Sink

__all__ = ["Gd1Arbiter", "Gd1Session"]


class Gd1Arbiter(Protocol):
    """What a session needs of the arbiter."""

    config: DirtyConfig
    stash: Keeper

    def submit(self, request: Request, sink: Sink) -> CallId: ...
    def cancel(self, call_id: CallId) -> None: ...
    def credit(self, call_id: CallId, chunks: int) -> None: ...
    def status(self) -> Mapping[str, Any]: ...
    def manage(self, verb: str, arguments: Mapping[str, Any]) -> Any: ...


#: What a frame asks for, with its values already in our own format.
_Order = Request | tuple[gd1.StashAsk, StashOp] | gd1.StatusAsk | gd1.Manage


class Gd1Session(asyncio.Protocol):
    """Calls, stash, status and manage of one client, from its first byte to its end.

    Frames are taken one after the other: a large one is translated in a thread while the next waits in the kernel. So
    what one client holds here is bounded by one frame, its open calls and their windows of chunks. A client that
    breaks the protocol is told how and hung up on; one that does not read its answers is not read either.

    Args:
        arbiter: does what is asked.
        on_closed: told once when the client is gone; its open calls are cancelled by then.
    """

    def __init__(self, arbiter: Gd1Arbiter, on_closed: Callable[[Gd1Session], None]) -> None:
        self._arbiter = arbiter
        self._on_closed = on_closed
        limit = min(MAX_PAYLOAD_BYTES, arbiter.config.max_payload_bytes)
        self._frames = FrameBuffer(limit, versions=frozenset({GD1}))
        self._transport: asyncio.Transport | None = None
        self._calls: set[Gd1Call] = set()
        self._caller = next_caller()
        self._is_full = False
        self._is_translating = False

    @property
    def is_full(self) -> bool:
        """Whether what was written waits for a client that does not read."""
        return self._is_full

    def write(self, frame: bytes) -> None:
        """Send a frame; when the client is gone it goes nowhere."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def forget(self, call: Gd1Call) -> None:
        """The last word on a call was said."""
        self._calls.discard(call)

    def announce_drain(self) -> None:
        """GD v1 has no word for it: new calls are refused one by one."""

    def close(self) -> None:
        """Close when what was written has left. May be called twice."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now; what has not left is lost. May be called twice."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        self._pump()

    def eof_received(self) -> bool:
        return False  # the transport closes itself: gunicorn's clients never close one side only

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        calls, self._calls = self._calls, set()
        for call in calls:
            call.drop()
        self._arbiter.stash.leave(self)
        self._on_closed(self)

    def pause_writing(self) -> None:
        self._is_full = True
        self._set_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        for call in list(self._calls):
            call.pay()
        self._pump()

    # --- one frame after the other ---

    def _pump(self) -> None:
        try:
            while not self._is_held() and (frame := self._frames.next_frame()) is not None:
                self._take(frame)
        except RemoteProtocolError as exc:
            self._hang_up(exc, 0)
        self._set_reading()

    def _is_held(self) -> bool:
        return self._is_full or self._is_translating or self._transport is None or self._transport.is_closing()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_held() and transport.is_reading():
            transport.pause_reading()
        elif not self._is_held() and not transport.is_reading():
            transport.resume_reading()

    def _take(self, frame: Frame) -> None:
        self._work(
            len(frame.payload), frame.id, lambda: self._order_of(frame), lambda order: self._follow(order, frame.id)
        )

    def _work(self, size: int, client_id: int, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do ``work``, in a thread when it is on many bytes, then go on with its result; its failure is answered."""
        if size <= LARGE_BYTES:
            with _Answering(self, client_id):
                then(work())
            return
        self._is_translating = True

        def go_on(worked: asyncio.Future[Any]) -> None:
            self._is_translating = False
            if worked.cancelled() or self._transport is None:
                return
            with _Answering(self, client_id):
                then(worked.result())
            self._pump()

        in_thread(work).add_done_callback(go_on)

    def _order_of(self, frame: Frame) -> _Order:
        match decode_message(frame):
            case gd1.Request(app, action, args, kwargs):
                body = encode_arguments(args, kwargs)
                window = self._arbiter.config.stream_window
                return Request(app=app, action=action, body=body, window=window, caller=self._caller)
            case gd1.StashAsk() as ask:
                return ask, stash_op(ask)
            case gd1.StatusAsk() | gd1.Manage() as ask:
                return ask
            case answer:
                raise RemoteProtocolError(f"a client may not send {type(answer).__name__} in GD v1; it asks")

    def _follow(self, order: _Order, client_id: int) -> None:
        match order:
            case Request():
                self._submit(order, client_id)
            case (ask, op):
                self._ask_stash(ask, op, client_id)
            case gd1.StatusAsk():
                self.write(encode_message(gd1.Response(status_result(self._arbiter)), client_id))
            case gd1.Manage() as ask:
                self.write(encode_message(gd1.Response(managed(self._arbiter, ask)), client_id))

    def _submit(self, request: Request, client_id: int) -> None:
        limit = self._arbiter.config.max_queued
        if len(self._calls) >= limit:
            raise QueueFull(f"this client has {limit} calls open; wait for answers", retry_after_s=1.0)
        call = Gd1Call(client_id, f"{request.app} {request.action}", request.window, self._arbiter, self)
        self._calls.add(call)
        try:
            call.call_id = self._arbiter.submit(request, call)
        except DirtyAppNotFoundError as exc:
            # to gunicorn's clients an app that is not served is one without workers
            call.fail(DirtyNoWorkersAvailableError(request.app, exc.message))
        except DirtyError as exc:
            call.fail(exc)

    def _ask_stash(self, ask: gd1.StashAsk, op: StashOp, client_id: int, keys: tuple[bytes, ...] = ()) -> None:
        def settle(outcome: StashReply | DirtyError) -> None:
            with _Answering(self, client_id):
                if isinstance(outcome, DirtyError):
                    raise outcome
                if outcome.cursor is not None and isinstance(op, Page) and self._transport is not None:
                    # gunicorn's clients ask for all keys at once; a large table still gives way to others in between
                    rest = structs.replace(op, cursor=outcome.cursor)
                    loop = asyncio.get_running_loop()
                    loop.call_soon(self._ask_stash, ask, rest, client_id, keys + outcome.keys)
                else:
                    self._answer_stash(ask, structs.replace(outcome, keys=keys + outcome.keys), client_id)

        self._arbiter.stash.submit(op, self, settle)

    def _answer_stash(self, ask: gd1.StashAsk, reply: StashReply, client_id: int) -> None:
        self._work(
            _size(reply),
            client_id,
            lambda: encode_message(gd1.Response(stash_result(ask, reply)), client_id),
            self.write,
        )

    # --- failures ---

    def refuse(self, error: BaseException, client_id: int) -> None:
        """Answer one request with ``error``; a client that broke the protocol is hung up on."""
        if isinstance(error, RemoteProtocolError):
            self._hang_up(error, client_id)
            return
        if not isinstance(error, DirtyError):
            log.error(error, "a request of a GD v1 client could not be carried out: {}", error)
            error = DirtyError(f"the request could not be carried out: {type(error).__name__}: {error}")
        self.write(encode_message(gd1.Error(error.to_dict()), client_id))

    def _hang_up(self, error: RemoteProtocolError, client_id: int) -> None:
        log.logger.warning("a GD v1 client broke the protocol and was hung up on: {}", error)
        self.write(encode_message(gd1.Error(error.to_dict()), client_id))
        # the last words may leave if they leave at once; nobody waits for such a client
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()
        self.close()


class _Answering:
    """Whatever fails inside is the answer to one request, and harms no other."""

    def __init__(self, session: Gd1Session, client_id: int) -> None:
        self._session = session
        self._client_id = client_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._session.refuse(error, self._client_id)
        return True


def _size(reply: StashReply) -> int:
    held = 0 if reply.value is None else len(reply.value)
    return held + sum(map(len, reply.keys))
