"""Which files of a directory the demo looks at. Opens none of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

__all__ = ["MAX_FILE_BYTES", "find_files"]

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
_SKIPPED: Final = frozenset({"__pycache__", "node_modules"})


def find_files(root: Path, limit: int) -> list[str]:
    """Return the first ``limit`` files below ``root``, in order, as absolute paths.

    Left out are hidden directories such as ``.git``, virtual environments, caches, whatever is larger than 8 MiB, and
    all that is not a plain file.
    """
    return list(islice(_files_below(root.absolute()), limit))


def _files_below(root: Path) -> Iterator[str]:
    for directory, names, files in os.walk(root):
        # changed in place, so that the walk does not go there; sorted, so that the same files are found each time
        names[:] = sorted(name for name in names if not _is_skipped(os.path.join(directory, name), name))
        for path in (os.path.join(directory, name) for name in sorted(files)):
            if _is_small_file(path):
                yield path


def _is_skipped(path: str, name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or os.path.exists(os.path.join(path, "pyvenv.cfg"))


def _is_small_file(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:  # gone since it was listed
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES
