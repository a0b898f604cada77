"""A serving worker: link ⇄ runner. The end of the link means leave."""

from __future__ import annotations

import os
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from dirtybus import stash
from dirtybus.app import CallContext
from dirtybus.errors import LocalProtocolError
from dirtybus.protocol.codec import importable_types
from dirtybus.protocol.heads import (
    Boot,
    Booting,
    Call,
    Cancel,
    Credit,
    Progress,
    Ready,
    Refusal,
    RunBatch,
    StashAnswer,
    Stop,
)
from dirtybus.protocol.messages import Message
from dirtybus.transport.blocking import BlockingLink
from dirtybus.transport.claims import Claims
from dirtybus.worker.asks import AsksOfLoop, AsksOfThread
from dirtybus.worker.batch_runner import BatchRunner
from dirtybus.worker.batches import JobBatch, jobs_of
from dirtybus.worker.failures import app_error, send_boot_failure
from dirtybus.worker.host import AppHost, BootStep, boot_step, import_object
from dirtybus.worker.jobs import Job
from dirtybus.worker.logs import LogForwarder
from dirtybus.worker.reader import LinkReader
from dirtybus.worker.side_loop import SideLoop

if TYPE_CHECKING:
    import asyncio

__all__ = ["Worker"]

#: how long close() may take once the owner is gone, before the process leaves all the same
_ORPHAN_GRACE_S = 0.7
_SIDE_LOOP_GRACE_S = 2.0


class Worker:
    """One worker process, from its boot order to its last word.

    ``worker_id``, ``pid`` and ``app_paths`` are for the hooks. Sync actions run in the thread that ran `init`
    (with ``threads`` > 1 also in others), so that objects bound to their thread just work.
    """

    def __init__(self, link: BlockingLink, claims: Claims, boot: Boot, *, dies_with_owner: bool) -> None:
        self.worker_id = boot.worker
        self.pid = os.getpid()
        self.app_paths = tuple(boot.apps)
        self._boot = boot
        self._dies_with_owner = dies_with_owner
        self._link = link
        self._reader = LinkReader(link, self._take, self._leave_as_orphan)
        self._side_loop = SideLoop(self._reader.start_thread)
        self._host = AppHost(boot.apps, self._side_loop.wait_for, self._tell_step)
        self._runner = BatchRunner(self._host, self._side_loop, self._send, claims.claim, self._reader)
        self._asks = AsksOfThread(link.send, self._reader)
        self._logs = LogForwarder(self._send, boot.log_level)
        self._queue: queue.SimpleQueue[Job | JobBatch | None] = queue.SimpleQueue()
        self._jobs: dict[int, Job] = {}
        #: the calls of each batch that is not complete yet
        self._gathered: dict[int, list[Job]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done = threading.Event()

    def run(self) -> int:
        """Boot, serve, close; return the exit code."""
        began_at = time.monotonic()
        self._logs.install()
        stash.bind(self._asks, async_port=AsksOfLoop(self._asks), resolve=importable_types)
        if self._boot.threads > 1 or not self._dies_with_owner:
            self._reader.start_thread()
        try:
            self._start()
        except BootStep as exc:
            send_boot_failure(self._send, exc)
            self._close()
            return 1
        self._send(Message(Ready(boot_s=time.monotonic() - began_at)))
        self._serve()
        self._close()
        return 0

    # --- boot ---

    def _start(self) -> None:
        arbiter = _OwnerOf(self._boot.owner_pid)
        if self._boot.post_fork is not None:
            self._run_hook("dirty_post_fork", self._boot.post_fork, arbiter, self)
        self._host.load()
        if self._boot.worker_init is not None:
            self._run_hook("dirty_worker_init", self._boot.worker_init, self)

    def _run_hook(self, name: str, path: str, *args: Any) -> None:
        self._tell_step(name, None)
        boot_step(name, None, lambda: import_object(path)(*args))

    def _tell_step(self, step: str, app: str | None) -> None:
        self._send(Message(Booting(step=step, app=app)))

    # --- serve ---

    def _serve(self) -> None:
        others = [
            threading.Thread(target=self._work_beside_reader, name=f"dirtybus-action-{n}", daemon=True)
            for n in range(2, self._boot.threads + 1)
        ]
        for thread in others:
            thread.start()
        self._work()
        for thread in others:
            thread.join()

    def _work(self) -> None:
        """Read and run by turns, as long as nobody else reads; what comes after that comes through the queue."""
        while not self._reader.has_thread and (not self._queue.empty() or self._reader.read()):
            while not self._queue.empty():
                if (job := self._queue.get()) is None:
                    return
                self._run(job)
        self._work_beside_reader()

    def _work_beside_reader(self) -> None:
        while (job := self._queue.get()) is not None:
            self._run(job)

    def _run(self, job: Job | JobBatch) -> None:
        self._runner.run(job)
        self._forget(job)

    def _forget(self, job: Job | JobBatch) -> None:
        for each in jobs_of(job):
            self._jobs.pop(each.id, None)

    def _close(self) -> None:
        self._host.close(self._log_close_error)
        self._side_loop.close(_SIDE_LOOP_GRACE_S)
        self._logs.close()
        self._done.set()
        self._link.close()

    def _log_close_error(self, app: str, exc: BaseException) -> None:
        error = app_error(exc, app=app, action="close")
        self._logs.forward(40, f"close() of {app} failed: {error}", "dirtybus.worker", error.traceback)

    def _send(self, message: Message) -> None:
        self._link.send(message)

    # --- whichever thread reads the link ---

    def _take(self, message: Message) -> None:
        head = message.head
        match head:
            case Call():
                self._accept(message.id, head, message)
            case RunBatch():
                self._begin(self._gathered.pop(head.batch, []))
            case StashAnswer() | Refusal():
                self._asks.settle(message)
            case Cancel():
                if job := self._jobs.get(message.id):
                    job.cancel()
            case Credit():
                if job := self._jobs.get(message.id):
                    job.credits.give(head.chunks)
            case Stop():
                self._stop_serving()

    def _accept(self, call_id: int, head: Call, message: Message) -> None:
        deadline_at = None if head.time_left_s is None else time.monotonic() + head.time_left_s
        context = CallContext(
            id=call_id,
            app=head.app,
            action=head.action,
            attempt=head.attempt,
            deadline_at=deadline_at,
            report=partial(self._report_progress, call_id),
            look=self._reader.glance,
        )
        job = self._jobs[call_id] = Job(call_id, head, message.payload, context)
        if head.batch:
            self._gathered.setdefault(head.batch, []).append(job)
        else:
            self._begin([job])

    def _begin(self, jobs: list[Job]) -> None:
        """Have the jobs run: as one where the code in this worker wants that, whatever that of the owner says."""
        if jobs and self._host.is_batched(jobs[0].head.app, jobs[0].head.action):
            self._enqueue(JobBatch(jobs, self._reader.glance))
        else:
            for job in jobs:
                self._enqueue(job)

    def _enqueue(self, job: Job | JobBatch) -> None:
        if self._host.is_async(job.head.app, job.head.action):
            job.cancel_with(lambda: self._side_loop.call_soon(self._cancel_task, job.id))
            self._side_loop.call_soon(self._spawn, job)
        else:
            self._queue.put(job)

    def _report_progress(self, call_id: int, done: float, total: float | None, text: str) -> None:
        head = Progress(done=float(done), total=None if total is None else float(total), text=str(text))
        try:
            self._send(Message(head, call_id))
        except LocalProtocolError:
            return  # a thread of the app that goes on after its call was answered; nobody listens

    def _stop_serving(self) -> None:
        for _ in range(self._boot.threads):
            self._queue.put(None)

    def _leave_as_orphan(self) -> None:
        for job in list(self._jobs.values()):
            job.cancel()
        self._asks.close()
        self._stop_serving()
        if not self._done.wait(_ORPHAN_GRACE_S):
            os._exit(1)  # nobody is left to wait for; the action that still runs has no caller

    # --- the loop's thread ---

    def _spawn(self, job: Job | JobBatch) -> None:
        task = self._side_loop.loop.create_task(self._runner.run_async(job), name=str(job.id))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._end_task(done, job))

    def _end_task(self, task: asyncio.Task[Any], job: Job | JobBatch) -> None:
        self._tasks.discard(task)
        if not job.is_settled:  # cancelled before its first step
            import asyncio

            self._runner.fail(job, asyncio.CancelledError())
        self._forget(job)

    def _cancel_task(self, call_id: int) -> None:
        for task in self._tasks:
            if task.get_name() == str(call_id):
                task.cancel()


class _OwnerOf:
    """What hooks see of the arbiter in a worker: it lives in another process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
