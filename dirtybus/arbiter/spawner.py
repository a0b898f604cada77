"""Child processes: started over a socketpair, watched to their end, reaped. Knows no pool and no app."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from dirtybus.config import DirtyConfig
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.messages import Message
from dirtybus.transport.claims import Claims
from dirtybus.transport.link import Link, open_link
from dirtybus.transport.posix import open_pidfd

__all__ = ["Child", "ExitStatus", "ProcessSpawner", "Spawner", "child_environment", "import_path"]

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
#: how long the link of a dead process is read on, and a process whose link is closed may live on
_REST_S = 1.0


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: by ``code``, or by a signal of that name."""

    code: int | None
    signal: str | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"it exited with code {self.code}"
        hint = ", perhaps by the kernel for want of memory" if self.signal == "SIGKILL" else ""
        return f"it was killed by {self.signal}{hint}"


class Child(Protocol):
    """A process that was started, as the arbiter sees it."""

    @property
    def pid(self) -> int: ...
    def was_begun(self, call_id: int) -> bool: ...
    def send(self, message: Message) -> bool: ...
    def kill(self) -> None: ...


class Spawner(Protocol):
    """Starts processes. ``on_gone`` is called once, after every message and when the process is reaped."""

    async def spawn(
        self,
        on_message: Callable[[Message], None],
        on_line: Callable[[str], None],
        on_gone: Callable[[ExitStatus], None],
    ) -> Child: ...
    def close(self) -> None: ...


class ProcessSpawner:
    """Start workers as fresh interpreters of the same Python.

    Args:
        config: environment and limits.
    """

    def __init__(self, config: DirtyConfig) -> None:
        self._config = config
        # the kernel's "kill me when my parent dies" means the parent's *thread*: this one lives as long as we do
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dirtybus-spawner")

    async def spawn(
        self,
        on_message: Callable[[Message], None],
        on_line: Callable[[str], None],
        on_gone: Callable[[ExitStatus], None],
    ) -> ChildProcess:
        """Start one process.

        Raises:
            OSError: the system refuses another process or descriptor.
        """
        loop = asyncio.get_running_loop()
        claims = Claims.create()
        ours, theirs = socket.socketpair()
        try:
            popen = await loop.run_in_executor(self._thread, self._popen, theirs, claims.fd)
        except BaseException:
            ours.close()
            claims.close()
            raise
        finally:
            theirs.close()
        claims.close_fd()
        ours.setblocking(False)
        child = ChildProcess(popen, claims, on_gone)
        connection = Connection(Side.CALLER, self._config.max_payload_bytes)
        await child.attach(ours, connection, on_message, on_line)
        return child

    def close(self) -> None:
        """Stop the thread that starts processes. May be called twice."""
        self._thread.shutdown(wait=False)

    def _popen(self, theirs: socket.socket, claims_fd: int) -> subprocess.Popen[bytes]:
        fds = (theirs.fileno(), claims_fd)
        arguments = [str(number) for number in (*fds, self._config.max_payload_bytes, os.getpid())]
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "dirtybus.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
            env=child_environment(os.environ, self._config),
        )


class ChildProcess:
    """One process, its link and what it prints, until all three have ended."""

    def __init__(self, popen: subprocess.Popen[bytes], claims: Claims, on_gone: Callable[[ExitStatus], None]) -> None:
        self._popen = popen
        self._claims = claims
        self._on_gone = on_gone
        self._link: Link | None = None
        self._pidfd: int | None = None
        self._status: ExitStatus | None = None
        self._link_ended = False
        self._told = False
        self._rest: asyncio.TimerHandle | None = None
        self._output: asyncio.BaseTransport | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

    def was_begun(self, call_id: int) -> bool:
        """Whether the process may have begun the call; to be asked before `on_gone` returns."""
        return self._claims.was_begun(call_id)

    async def attach(
        self,
        sock: socket.socket,
        connection: Connection,
        on_message: Callable[[Message], None],
        on_line: Callable[[str], None],
    ) -> None:
        """Begin to read the link and the output, and to wait for the end."""
        loop = asyncio.get_running_loop()
        self._watch_exit(loop)
        assert self._popen.stdout is not None
        self._output, _ = await loop.connect_read_pipe(lambda: _Lines(on_line), self._popen.stdout)
        self._link = await open_link(sock, Link(connection, on_message, self._on_link_lost))

    def send(self, message: Message) -> bool:
        """Send to the process; False when its link is gone."""
        return self._link is not None and self._link.send(message)

    def kill(self) -> None:
        """End the process now. May be called twice, and from a signal's path: it awaits nothing."""
        if self._status is None and self._popen.poll() is None:
            self._popen.kill()

    # --- the end: the process is reaped and its last words are read, in whichever order ---

    def _watch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pidfd = open_pidfd(self.pid)
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._on_exit)
            return
        # no such descriptor here (macOS): a thread waits instead
        waiting = loop.run_in_executor(None, self._popen.wait)
        waiting.add_done_callback(lambda _: self._on_exit())

    def _on_exit(self) -> None:
        code = self._popen.poll()
        if code is None or self._status is not None:
            return
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._status = ExitStatus(code, None) if code >= 0 else ExitStatus(None, signal.Signals(-code).name)
        self._settle()

    def _on_link_lost(self, exc: Exception | None) -> None:
        self._link_ended = True
        self._settle()

    def _settle(self) -> None:
        if self._told:
            return
        if self._status is not None and self._link_ended:
            self._told = True
            if self._rest is not None:
                self._rest.cancel()
            if self._output is not None:
                self._output.close()
            self._on_gone(self._status)
            self._claims.close()
        elif self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(_REST_S, self._finish)

    def _finish(self) -> None:
        """One end came and the other did not: a grandchild holds the socket, or the process lives without it."""
        self.kill()
        if self._link is not None:
            self._link.abort()


class _Lines(asyncio.Protocol):
    """Cuts what a process prints into lines."""

    _MAX = 64 * 1024

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._part = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._part = (self._part + data).split(b"\n")
        if len(self._part) > self._MAX:
            lines.append(self._part)
            self._part = b""
        for line in lines:
            self._say(line)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._part:
            self._say(self._part)

    def _say(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._on_line(text)


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
