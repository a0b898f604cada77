"""Calls that run as one inside a worker. Looks like one job to whoever runs jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dirtybus.app import CallContext
from dirtybus.protocol.heads import Call
from dirtybus.worker.jobs import Job

__all__ = ["BatchContext", "JobBatch", "jobs_of"]


class JobBatch:
    """Jobs of one action, in the order of their calls. It is named after the first."""

    __slots__ = ("context", "jobs")

    def __init__(self, jobs: Sequence[Job], look: Callable[[], object]) -> None:
        self.jobs = tuple(jobs)
        self.context = BatchContext(self.jobs, look)

    @property
    def id(self) -> int:
        return self.jobs[0].id

    @property
    def head(self) -> Call:
        return self.jobs[0].head

    @property
    def is_settled(self) -> bool:
        """Whether every call has had its last word."""
        return all(job.is_settled for job in self.jobs)

    def unsettled(self) -> Iterator[Job]:
        """Yield the jobs without a last word."""
        return (job for job in self.jobs if not job.is_settled)

    def cancel_with(self, cancel: Callable[[], object]) -> None:
        """Have ``cancel`` called, from any thread, when nobody waits for any call any more."""

        def cancel_unless_wanted() -> None:
            if is_unwanted(self.jobs):
                cancel()

        for job in self.jobs:
            job.cancel_task = cancel_unless_wanted


class BatchContext(CallContext):
    """What an action sees of its calls when they run together: they are cancelled when each of them is."""

    def __init__(self, jobs: Sequence[Job], look: Callable[[], object]) -> None:
        first = jobs[0].context
        deadlines = [job.context.deadline_at for job in jobs]
        known = [at for at in deadlines if at is not None]
        super().__init__(
            id=first.id,
            app=first.app,
            action=first.action,
            attempt=max(job.context.attempt for job in jobs),
            deadline_at=max(known) if len(known) == len(deadlines) else None,
            report=self._tell_everyone,
            look=look,
        )
        self._jobs = jobs

    def cancelled(self) -> bool:
        """Whether nobody waits for any of the calls any more."""
        return super().cancelled() or is_unwanted(self._jobs)

    def _tell_everyone(self, done: float, total: float | None, text: str) -> None:
        for job in self._jobs:
            if not job.is_settled:
                job.context.progress(done, total, text)


def is_unwanted(jobs: Sequence[Job]) -> bool:
    """Whether each call is cancelled or has had its last word."""
    return all(job.is_settled or job.is_cancelled for job in jobs)


def jobs_of(job: Job | JobBatch) -> Sequence[Job]:
    """Return the calls that run in it."""
    return job.jobs if isinstance(job, JobBatch) else (job,)
