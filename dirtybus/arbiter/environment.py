"""What a worker process finds around it: its environment, and where it looks for code. Starts nothing."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping

from dirtybus.config import DirtyConfig

__all__ = ["child_environment", "import_path"]

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


def child_environment(environment: Mapping[str, str], config: DirtyConfig) -> dict[str, str]:
    """Return the environment of a worker: ours, thread limits where nobody chose, then the configured one."""
    child = dict(environment)
    if config.compute_threads is not None:
        for name in _THREAD_VARIABLES:
            child.setdefault(name, str(config.compute_threads))
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
