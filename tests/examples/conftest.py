"""Starts examples as a person would: scripts by their path, web services beside a standalone owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import IO, NamedTuple

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
READY_WITHIN_S = 60.0
END_WITHIN_S = 20.0

# as in dirty workers: more BLAS threads than free cores make a model ten times slower
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# a script's directory is the first place Python looks in; the unit tests import the same files the same way
if str(EXAMPLES) not in sys.path:
    sys.path.insert(0, str(EXAMPLES))

RunExample = Callable[..., subprocess.CompletedProcess[str]]


class Web(NamedTuple):
    """A web service of an example and the log of its owner."""

    url: str
    owner: subprocess.Popen[bytes]


@pytest.fixture
def run_example() -> RunExample:
    """Run an example to its end and return what it wrote; past ``within_s`` seconds it is killed and the test fails."""

    def run(script: str, *args: str, within_s: float = 100.0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(EXAMPLES / script), *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)

    return run


@contextmanager
def web_beside_owner(apps: list[str], server: list[str], directory: Path) -> Iterator[Web]:
    """Start an owner of ``apps`` and, when its workers are ready, a server; ``{fd}`` is where the server listens."""
    path = directory / "owner.sock"
    environment = {**os.environ, "DIRTYBUS_SOCKET": str(path)}
    # listening before the server exists: connections wait for it, and no port can be lost to somebody else
    with (
        _owner(apps, path, directory / "owner.log") as owner,
        socket.create_server(("127.0.0.1", 0)) as listening,
        (directory / "web.log").open("wb") as log,
    ):
        fd = listening.fileno()
        command = [sys.executable, "-m", *(part.format(fd=fd) for part in server)]
        with _process(command, log, pass_fds=(fd,), env=environment):
            yield Web(f"http://127.0.0.1:{listening.getsockname()[1]}", owner)


@contextmanager
def _owner(apps: list[str], path: Path, log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "dirtybus", "run", *apps, "--workers", "2"]
    command += ["--socket", str(path), "--ready-fd", str(writing)]
    with open(reading, "rb", buffering=0) as ready, log_path.open("wb") as log:
        with open(writing, "wb", closefd=True):  # ours must be closed, or its end would never be seen
            starting = _process(command, log, pass_fds=(writing,))
            owner = starting.__enter__()
        try:
            assert select([ready], [], [], READY_WITHIN_S)[0], f"not ready in time: {log_path.read_text()}"
            assert ready.read(6) == b"READY\n", log_path.read_text()
            yield owner
        finally:
            starting.__exit__(None, None, None)


@contextmanager
def _process(
    command: list[str], log: IO[bytes], *, pass_fds: tuple[int, ...], env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=EXAMPLES, stdout=log, stderr=log, pass_fds=pass_fds, env=env) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
