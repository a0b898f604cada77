"""The file of a store before SQLite sees it: whose it is, and that this process has it open once. Knows no rows.

Whoever closes any descriptor of a file loses all POSIX locks that its process has on it, SQLite's among them. So a file
that is in use here is never opened, not even to be looked at.
"""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Final

from dirtybus.errors import StashError

__all__ = ["APPLICATION_ID", "claim", "damaged", "foreign", "in_use", "later", "release"]

#: what says in the file's header that it is ours: "dbst"
APPLICATION_ID: Final = 0x64627374
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
#: what stands at bytes 18 and 19 of a database with a write-ahead log
_WITH_LOG: Final = b"\x02\x02"

_FileId = tuple[int, int]
_open_here: Final[set[_FileId]] = set()
_lock: Final = threading.Lock()


def claim(path: str, latest_schema: int) -> _FileId:
    """Look at the file, or make an empty one for this user only, and keep others in this process from it.

    Args:
        path: the file, without symbolic links.
        latest_schema: no later one can be read.

    Raises:
        StashError: it is somebody else's, damaged, or open in this process; it was left as it is.
        OSError: it cannot be opened.
    """
    with _lock:
        file_id = _id_of(path)
        if file_id is not None and file_id in _open_here:
            raise in_use(path)
        if file_id is None or os.stat(path).st_size == 0:
            _check_no_log(path)
        if file_id is None:
            # made here, with its mode, as SQLite's own would follow the umask; its log takes the mode of the file
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            file_id = _id_of(path)
            assert file_id is not None, "it was made just now"
        else:
            _check_header(path, latest_schema)
        _open_here.add(file_id)
        return file_id


def release(file_id: _FileId) -> None:
    """Let others in this process have the file: it is closed."""
    with _lock:
        _open_here.discard(file_id)


def in_use(path: str) -> StashError:
    return StashError(f"{path!r} is in use by another owner; end that one, or name another file in stash.persist")


def foreign(path: str) -> StashError:
    return StashError(f"{path!r} is a database of another program, and was left as it is; name another file")


def later(path: str, schema: int, latest_schema: int) -> StashError:
    return StashError(
        f"{path!r} was written by a later version of dirtybus (its schema is {schema}, this one knows "
        f"{latest_schema}), and was left as it is; use that version, or name another file"
    )


def damaged(path: str, what: str) -> StashError:
    first = what.strip().splitlines()[0][:200] if what.strip() else "no reason given"
    return StashError(
        f"{path!r} is no database or is damaged, and was left as it is: {first}; move it away (with "
        f"{Path(path).name}-wal) to begin with an empty one, and restore what was exported with `dirtybus stash import`"
    )


def _id_of(path: str) -> _FileId | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_no_log(path: str) -> None:
    """An empty file has no log of ours: its first pages are written before there is one. SQLite would remove it."""
    log = Path(path + "-wal")
    if log.exists() and log.stat().st_size:
        raise damaged(path, f"it is empty or missing, but its log {log.name} is not")


def _check_header(path: str, latest_schema: int) -> None:
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return  # somebody has made an empty file for us
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise damaged(path, "it does not begin as a database does")
    schema, application_id = (struct.unpack_from(">I", header, offset)[0] for offset in (60, 68))
    if application_id != APPLICATION_ID:
        raise foreign(path)
    if schema > latest_schema:
        raise later(path, schema, latest_schema)
    log = Path(path + "-wal")
    if header[18:20] != _WITH_LOG and log.exists() and log.stat().st_size:
        raise damaged(path, f"its header says that it has no log, but {log.name} is there")
