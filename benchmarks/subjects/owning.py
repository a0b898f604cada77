"""A program that owns workers, for as long as a client is measured. It ends with its stdin, so never outlives us."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["OwnerProgram"]

_LEAVE_S = 10.0


class OwnerProgram:
    """``python -m MODULE SOCKET WORKERS [SETTING=VALUE]...``, which says READY on stdout when it listens.

    Raises:
        RuntimeError: it ended or said something else first.
    """

    def __init__(self, module: str, socket_path: str, workers: int, *settings: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, socket_path, str(workers), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said != "READY\n":
            self.close()
            raise RuntimeError(f"{module} said {said!r} instead of READY, and left with {self._process.returncode}")

    def close(self) -> None:
        """Let it end, and reap it; kill it when it takes over 10 s. May be called twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
