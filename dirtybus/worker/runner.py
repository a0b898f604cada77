"""One call → one last word: runs the action, in a thread or on the loop, and sends what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dirtybus.app import _current
from dirtybus.errors import CallCancelled, DecodeError, DirtyError, EncodeError, LocalProtocolError
from dirtybus.protocol.arguments import decode_arguments
from dirtybus.protocol.codec import encode_body, importable_types
from dirtybus.protocol.heads import (
    Chunk,
    End,
    Failure,
    Head,
    Kind,
    Reply,
)
from dirtybus.protocol.messages import Message
from dirtybus.worker.failures import app_error, send_error
from dirtybus.worker.host import AppHost
from dirtybus.worker.jobs import Job
from dirtybus.worker.reader import LinkReader
from dirtybus.worker.side_loop import SideLoop

__all__ = ["Runner"]

#: errors of ours that keep their class on the way to the caller; any other the app raised is the app's
_OURS = (EncodeError, DecodeError, LocalProtocolError)


class Runner:
    """Run jobs against the apps of ``host`` and send the outcome.

    Args:
        host: where the actions are.
        side_loop: where coroutines run.
        send: sends one message to the owner; blocks while the owner is behind.
        claim: notes that a call begins, where the owner can read it if this process dies.
        reader: takes in credits and cancels while a sync generator runs.
    """

    def __init__(
        self,
        host: AppHost,
        side_loop: SideLoop,
        send: Callable[[Message], None],
        claim: Callable[[int], None],
        reader: LinkReader,
    ) -> None:
        self._host = host
        self._side_loop = side_loop
        self._send = send
        self._claim = claim
        self._reader = reader

    def run(self, job: Job) -> None:
        """Run a sync job in this thread, to its last word."""
        token = _current.set(job.context)
        try:
            self._finish(job, self._call(job))
        except BaseException as exc:
            self.fail(job, exc)
        finally:
            _current.reset(token)

    async def run_async(self, job: Job) -> None:
        """Run an async job as this task, to its last word."""
        _current.set(job.context)  # the task's own context: nothing to reset
        try:
            await self._finish_async(job, self._call(job))
        except BaseException as exc:
            self.fail(job, exc)

    def _call(self, job: Job) -> Any:
        if job.context._cancelled:  # noqa: SLF001 - what was read so far; a closer look would cost a system call
            job.context.check()
        self._claim(job.id)
        action = self._host.bind(job.head.app, job.head.action)
        args, kwargs = decode_arguments(job.payload, resolve=importable_types)
        return action(*args, **kwargs)

    # --- in a thread ---

    def _finish(self, job: Job, result: Any) -> None:
        if hasattr(result, "__await__"):
            result = self._side_loop.wait_for(result)
        if hasattr(result, "__anext__"):
            self._side_loop.wait_for(self._stream_async(job, result))
            return None
        if hasattr(result, "send") and hasattr(result, "__next__"):
            return self._stream(job, result)
        return self._reply(job, result)

    def _stream(self, job: Job, generator: Any) -> None:
        try:
            for value in generator:
                self._reader.glance()
                if not job.credits.take(self._reader.read):
                    job.context.check()
                self._chunk(job, value)
        finally:
            generator.close()
        self._say(job, End())

    # --- on the loop ---

    async def _finish_async(self, job: Job, result: Any) -> None:
        if hasattr(result, "__await__"):
            result = await result
        if hasattr(result, "__anext__"):
            return await self._stream_async(job, result)
        if hasattr(result, "send") and hasattr(result, "__next__"):
            return self._stream(job, result)
        return self._reply(job, result)

    async def _stream_async(self, job: Job, generator: Any) -> None:
        loop = self._side_loop.loop
        try:
            async for value in generator:
                if not await job.credits.take_async(loop):
                    job.context.check()
                self._chunk(job, value)
        finally:
            await generator.aclose()
        self._say(job, End())

    # --- words ---

    def _reply(self, job: Job, value: Any) -> None:
        self._say(job, Reply(), encode_body(value, root="result"))

    def _chunk(self, job: Job, value: Any) -> None:
        self._say(job, Chunk(), encode_body(value, root="chunk"))

    def _say(self, job: Job, head: Head, body: Any = ()) -> None:
        self._send(Message(head, job.id, body))
        job.is_settled = head.kind is not Kind.CHUNK

    def fail(self, job: Job, exc: BaseException) -> None:
        """Send the error as the last word, unless the last word was said."""
        if not job.is_settled:
            send_error(lambda error: self._say(job, Failure(error=error.to_dict())), as_error(job, exc))


def as_error(job: Job, exc: BaseException) -> DirtyError:
    """Return ``exc`` as an error that can travel, with the traceback as text."""
    head = job.head
    if isinstance(exc, _OURS) or (isinstance(exc, DirtyError) and getattr(exc, "app_path", None) == head.app):
        return exc
    if type(exc).__name__ == "CancelledError" or isinstance(exc, CallCancelled):
        return CallCancelled(f"{head.app} {head.action}: cancelled while it ran")
    return app_error(exc, app=head.app, action=head.action)
