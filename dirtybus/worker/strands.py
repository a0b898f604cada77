"""The streams of calls that run as one: who gets which chunk, who lags behind, who is over. Sends through others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from dirtybus.errors import CallCancelled, CallError
from dirtybus.worker.jobs import Job

__all__ = ["Strand", "Strands", "entries"]

#: so many chunks may wait here for one reader, while the others of its batch read on
_MOST_BEHIND = 256


class Strand:
    """The stream of one call.

    ``error`` is how it ended, None for well; ``backlog`` is what its reader lags behind.
    """

    __slots__ = ("backlog", "error", "is_over", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.backlog: deque[Any] = deque()
        self.is_over = False
        self.error: BaseException | None = None

    def end(self, error: BaseException | None) -> None:
        """Take nothing more; the first end counts."""
        if not self.is_over:
            self.is_over, self.error = True, error

    def cut(self, error: BaseException) -> None:
        """End with an error, whatever was to come; what was not sent yet is dropped."""
        self.is_over, self.error = True, error
        self.backlog.clear()


class Strands:
    """Deal out what a batched action yields. The fastest reader sets the pace; the others may lag behind somewhat.

    Args:
        jobs: the calls, in the order of the entries.
        chunk: sends a chunk of a call; raises when it cannot be sent.
        finish: sends the last word of a call whose stream is over.
        on_change: called, from any thread, when a reader has read or left, so that `flush` may do something.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        chunk: Callable[[Job, Any], None],
        finish: Callable[[Strand], None],
        on_change: Callable[[], object],
    ) -> None:
        self._strands = [Strand(job) for job in jobs]
        self._chunk = chunk
        self._finish = finish
        self._has_ended = False
        for job in jobs:
            job.credits.watch(on_change)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody takes more of what the action yields."""
        return any(not strand.is_over for strand in self._strands)

    @property
    def must_wait(self) -> bool:
        """Whether the action, or its end, has to wait for a reader."""
        if self._has_ended:
            return any(strand.backlog for strand in self._strands)
        return self.is_wanted and all(strand.backlog for strand in self._strands if not strand.is_over)

    def deal(self, row: Any) -> None:
        """Take one list of chunks, and pass on what may be sent.

        Raises:
            TypeError, ValueError: it is no list with one entry for each call.
        """
        for strand, entry in zip(self._strands, entries(row, len(self._strands), "yield"), strict=True):
            if strand.is_over:
                continue
            if isinstance(entry, StopIteration):
                strand.end(None)
            elif isinstance(entry, Exception):
                strand.end(entry)
            else:
                strand.backlog.append(entry)
        self.flush()

    def end(self, error: BaseException | None) -> None:
        """The action has ended, by an error perhaps: so have all streams that had not before."""
        self._has_ended = True
        for strand in self._strands:
            strand.end(error)
        self.flush()

    def flush(self) -> None:
        """Send what may be sent now.

        The last word of the last one is kept back until the action has ended: then the worker is free.
        """
        for strand in self._strands:
            if strand.job.is_cancelled:
                strand.cut(CallCancelled(f"nobody waits for call {strand.job.id} any more"))
            while strand.backlog and strand.job.credits.take_now():
                self._send_next(strand)
            if len(strand.backlog) > _MOST_BEHIND:
                text = f"its reader fell {_MOST_BEHIND} chunks behind the other calls of its batch; read faster"
                strand.cut(CallError(text))
        if self._has_ended or self.is_wanted:
            for strand in self._strands:
                if strand.is_over and not strand.backlog and not strand.job.is_settled:
                    self._finish(strand)

    def _send_next(self, strand: Strand) -> None:
        try:
            self._chunk(strand.job, strand.backlog.popleft())
        except Exception as exc:
            strand.cut(exc)


def entries(row: Any, count: int, verb: str) -> list[Any]:
    """Return what a batched action returned or yielded, as a list with one entry for each of its ``count`` calls.

    Raises:
        TypeError, ValueError: it is something else; says what it is and what it should be.
    """
    wanted = f"a batched action must {verb} a list with one entry for each of its calls"
    if isinstance(row, str | bytes | bytearray | dict) or not hasattr(row, "__len__"):
        raise TypeError(f"{wanted}, not {type(row).__name__}")
    found = list(row)
    if len(found) != count:
        raise ValueError(f"{wanted}: there are {count}, and it has {len(found)}")
    return found
