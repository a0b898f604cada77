"""The ready mark: one line on a descriptor that whoever started us gave us, written once and then closed."""

from __future__ import annotations

import os
from typing import Final

from dirtybus.errors import ConfigError

__all__ = ["ReadyMark"]

_TEXT: Final = b"READY\n"
_STANDARD_FDS: Final = (0, 1, 2)


class ReadyMark:
    """Tells a supervisor that every worker is ready.

    Args:
        fd: the descriptor; our own children will not get it.

    Raises:
        ConfigError: no such descriptor is open.
    """

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        try:
            os.set_inheritable(fd, False)
        except OSError as exc:
            raise ConfigError(
                f"--ready-fd {fd}: {exc.strerror}; pass an open descriptor on to this process, e.g. with 3>FILE"
            ) from None

    def set(self) -> None:
        """Write the line and close. May be called twice.

        Raises:
            OSError: nobody reads there any more.
        """
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.write(fd, _TEXT)
        finally:
            if fd not in _STANDARD_FDS:
                os.close(fd)
