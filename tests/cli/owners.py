"""Runs ``dirtybus`` as a process of its own, as a supervisor would, and waits for facts only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select

import psutil

ROOT = Path(__file__).parents[2]
#: generous, as both cores may be busy; nothing takes so long when all is well
WITHIN_S = 45.0
SHOP = "tests.cli.apps:Shop"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A running owner whose workers are ready."""

    process: subprocess.Popen[bytes]
    socket: str
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def send(self, signum: signal.Signals) -> None:
        """Send a signal to the owner itself, also where the process is a command that started it."""
        children = psutil.Process(self.process.pid).children()
        owners = [each.pid for each in children if "--ready-fd" in each.cmdline()]
        os.kill(owners[0] if owners else self.process.pid, signum)

    def ended(self) -> int:
        """Wait for its end and return its exit code."""
        return self.process.wait(WITHIN_S)


def dirtybus(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dirtybus", *arguments],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@contextmanager
def owner_of(
    *arguments: str, at: Path, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
) -> Iterator[Owner]:
    """Start ``dirtybus run`` and wait until it says by ``--ready-fd`` that it is ready. It is killed at the end.

    With a ``prefix``, a command that runs it as its only child, the owner's process is that command.
    """
    reading, writing = os.pipe()
    socket, log_path = at / "owner.sock", at / "owner.log"
    command = [*prefix, sys.executable, "-m", "dirtybus", "run", *arguments]
    command += ["--socket", str(socket), "--ready-fd", str(writing)]
    with log_path.open("wb") as log, open(reading, "rb", buffering=0) as ready:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=log, stderr=log, pass_fds=(writing,)
        )
        os.close(writing)
        try:
            assert select([ready], [], [], WITHIN_S)[0], f"not ready in time:\n{log_path.read_text()}"
            assert ready.read(6) == b"READY\n", log_path.read_text()
            # closed once the line is written, by the owner and by every worker; a prefix keeps it open
            assert prefix or ready.read() == b""
            yield Owner(process=process, socket=str(socket), log_path=log_path)
        finally:
            process.kill()
            process.wait(WITHIN_S)
