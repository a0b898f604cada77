"""Several calls → one run of their action → a last word for each. What goes wrong with one is told to that one only."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from dirtybus.app import _current
from dirtybus.errors import CallCancelled
from dirtybus.protocol.arguments import decode_arguments
from dirtybus.protocol.codec import importable_types
from dirtybus.protocol.heads import End
from dirtybus.worker.batches import JobBatch
from dirtybus.worker.jobs import Job
from dirtybus.worker.runner import Runner
from dirtybus.worker.strands import Strand, Strands, entries

__all__ = ["BatchRunner"]


class BatchRunner(Runner):
    """A runner that also takes a `JobBatch`. The action gets a list with the argument of each call."""

    def run(self, job: Job | JobBatch) -> None:
        """Run a sync job, or a batch of them, in this thread."""
        if not isinstance(job, JobBatch):
            return super().run(job)
        token = _current.set(job.context)
        try:
            self._finish_batch(*self._call_batch(job))
        except BaseException as exc:
            self.fail(job, exc)
        finally:
            _current.reset(token)
        return None

    async def run_async(self, job: Job | JobBatch) -> None:
        """Run an async job, or a batch of them, as this task."""
        if not isinstance(job, JobBatch):
            return await super().run_async(job)
        _current.set(job.context)
        try:
            await self._finish_batch_async(*self._call_batch(job))
        except BaseException as exc:
            self.fail(job, exc)
        return None

    def fail(self, job: Job | JobBatch, exc: BaseException) -> None:
        """Send the error as the last word to whom it was not said yet."""
        if isinstance(job, JobBatch):
            for each in job.unsettled():
                super().fail(each, exc)
        else:
            super().fail(job, exc)

    def _call_batch(self, batch: JobBatch) -> tuple[list[Job], Any]:
        """Begin the run; return the jobs that take part, and what the action returned. Nobody may be left."""
        for job in batch.jobs:
            if job.is_cancelled:
                self.fail(job, CallCancelled(f"call {job.id} was cancelled before it began"))
            else:
                self._claim(job.id)
        jobs, items = [], []
        for job in batch.unsettled():
            try:
                items.append(_sole_argument(job))
            except BaseException as exc:
                self.fail(job, exc)
            else:
                jobs.append(job)
        if not jobs:
            return [], ()
        return jobs, self._host.bind(batch.head.app, batch.head.action)(items)

    # --- in a thread ---

    def _finish_batch(self, jobs: list[Job], result: Any) -> None:
        if hasattr(result, "__await__"):
            result = self._side_loop.wait_for(result)
        if hasattr(result, "__anext__"):
            self._side_loop.wait_for(self._stream_batch_async(jobs, result))
        elif hasattr(result, "send") and hasattr(result, "__next__"):
            self._stream_batch(jobs, result)
        else:
            self._reply_to_each(jobs, result)

    def _stream_batch(self, jobs: list[Job], generator: Any) -> None:
        error: BaseException | None = None
        changed = threading.Event()
        strands = Strands(jobs, self._chunk, self._end_strand, changed.set)
        try:
            for row in generator:
                self._reader.glance()
                strands.deal(row)
                self._wait_for_readers(strands, changed)
                if not strands.is_wanted:
                    break
        except BaseException as exc:
            error = exc
        finally:
            generator.close()
        strands.end(error)
        self._wait_for_readers(strands, changed)

    def _wait_for_readers(self, strands: Strands, changed: threading.Event) -> None:
        while strands.must_wait:
            changed.clear()
            strands.flush()
            if strands.must_wait:
                self._reader.wait_for(changed)

    # --- on the loop ---

    async def _finish_batch_async(self, jobs: list[Job], result: Any) -> None:
        if hasattr(result, "__await__"):
            result = await result
        if hasattr(result, "__anext__"):
            await self._stream_batch_async(jobs, result)
        elif hasattr(result, "send") and hasattr(result, "__next__"):
            self._stream_batch(jobs, result)
        else:
            self._reply_to_each(jobs, result)

    async def _stream_batch_async(self, jobs: list[Job], generator: Any) -> None:
        import asyncio  # a worker whose actions are all sync need not load it

        error: Exception | None = None
        changed = asyncio.Event()
        wake = partial(self._side_loop.call_soon, changed.set)
        strands = Strands(jobs, self._chunk, self._end_strand, wake)

        async def wait_for_readers() -> None:
            while strands.must_wait:
                changed.clear()
                strands.flush()
                if strands.must_wait:
                    await changed.wait()

        try:
            async for row in generator:
                strands.deal(row)
                await wait_for_readers()
                if not strands.is_wanted:
                    break
        except Exception as exc:
            error = exc
        finally:
            await generator.aclose()
        strands.end(error)
        await wait_for_readers()

    # --- words ---

    def _reply_to_each(self, jobs: list[Job], result: Any) -> None:
        for job, entry in zip(jobs, entries(result, len(jobs), "return"), strict=True):
            if isinstance(entry, Exception):
                self.fail(job, entry)
                continue
            try:
                self._reply(job, entry)
            except Exception as exc:
                self.fail(job, exc)

    def _end_strand(self, strand: Strand) -> None:
        if strand.error is not None:
            self.fail(strand.job, strand.error)
        else:
            self._say(strand.job, End())


def _sole_argument(job: Job) -> Any:
    args, kwargs = decode_arguments(job.payload, resolve=importable_types)
    if len(args) != 1 or kwargs:
        raise TypeError(
            f"{job.head.action}() is a batched action: each call gives it one argument, by position; "
            f"this one gave {len(args)}, and {len(kwargs)} by name"
        )
    return args[0]
