"""What a contestant and all its processes use: CPU time, and the memory of its workers. Starts nothing."""

from __future__ import annotations

import psutil

__all__ = ["cpu_s", "worker_memory_mib"]


def cpu_s() -> float:
    """Return the CPU time of this process and of all its living descendants so far, in seconds.

    The kernel counts other processes in ticks of 10 ms, so let a second or so pass between two looks.
    """
    return sum(_times(process) for process in _family())


def worker_memory_mib() -> tuple[float, float] | None:
    """Return the proportional and the resident memory of the largest worker, in MiB; None when they cannot be read.

    A worker is a descendant without children of its own.
    """
    found = [memory for process in _leaves() if (memory := _memory_mib(process)) is not None]
    return max(found, default=None)


def _family() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def _leaves() -> list[psutil.Process]:
    others = _family()[1:]
    parents = {process.ppid() for process in others}
    return [process for process in others if process.pid not in parents and not _is_tracker(process)]


def _is_tracker(process: psutil.Process) -> bool:
    """Whether it is the standard library's keeper of shared resources, which runs no call."""
    return any("resource_tracker" in word for word in process.cmdline())


def _times(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _memory_mib(process: psutil.Process) -> tuple[float, float] | None:
    try:
        memory = process.memory_full_info()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return float(getattr(memory, "pss", memory.rss)) / 2**20, float(memory.rss) / 2**20
