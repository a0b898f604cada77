"""What a worker process finds around it: its environment, and where it looks for code. Starts nothing."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping

from dirtybus.config import DirtyConfig

__all__ = ["child_environment", "compute_rule", "compute_threads", "import_path"]

#: libraries that would otherwise start a thread per core in every worker
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compute_threads(config: DirtyConfig) -> int | None:
    """Return how many threads the libraries of a worker use; None: as many as they like.

    With ``auto`` the cores are divided by the workers that there may be, and each gets one at least.
    """
    if config.compute_threads != "auto":
        return config.compute_threads
    return max(1, cores() // max(1, most_workers(config)))


def compute_rule(config: DirtyConfig) -> str | None:
    """Return how `compute_threads` was worked out, for the log; None where a number was given."""
    if config.compute_threads != "auto":
        return None
    return f"compute_threads: {cores()} cores / {most_workers(config)} workers = {compute_threads(config)} in each"


def most_workers(config: DirtyConfig) -> int:
    """Return how many workers the settings allow."""
    return config.workers if config.pool_size is None else config.pool_size[1]


def child_environment(environment: Mapping[str, str], config: DirtyConfig) -> dict[str, str]:
    """Return the environment of a worker: ours, thread limits where nobody chose, then the configured one."""
    child = dict(environment)
    if (threads := compute_threads(config)) is not None:
        for name in _THREAD_VARIABLES:
            child.setdefault(name, str(threads))
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if home not in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        # we run from a source tree: the child must find the same one before it is told our sys.path
        child["PYTHONPATH"] = os.pathsep.join(filter(None, [home, child.get("PYTHONPATH", "")]))
    if config.socket is not None:
        child["DIRTYBUS_SOCKET"] = os.path.abspath(config.socket)
    child.update(config.env)
    return child


def import_path(config: DirtyConfig) -> list[str]:
    """Return where workers look for the user's code: where the owner looks, after the configured places."""
    ours = [os.path.abspath(entry) for entry in sys.path]
    wanted = [os.path.abspath(entry) for entry in config.pythonpath]
    return list(dict.fromkeys([*wanted, *ours]))
