"""Child processes: started over a socketpair, watched to their end, reaped. Knows no pool and no app."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from dirtybus.arbiter.environment import child_environment
from dirtybus.arbiter.exits import ExitStatus
from dirtybus.arbiter.oom import OomCounter
from dirtybus.arbiter.output import Output
from dirtybus.config import DirtyConfig
from dirtybus.in_thread import in_thread
from dirtybus.protocol.connection import Connection, Side
from dirtybus.protocol.messages import Message
from dirtybus.transport.claims import Claims
from dirtybus.transport.link import Link, open_link
from dirtybus.transport.posix import (
    ASK_FOR_LOG_FILES,
    ASK_FOR_STACKS,
    block_signals_of_workers,
    oom_kills,
    open_pidfd,
)
from dirtybus.transport.pulse import Pulse

__all__ = ["Child", "ChildProcess", "ProcessSpawner", "Spawner"]

#: how long the link of a dead process is read on, and a process whose link is closed may live on
_REST_S = 1.0
#: the stacks of a process are there when it has printed nothing for so long; one that cannot print is not waited for
_QUIET_S = 0.05
_STACKS_WITHIN_S = 0.3


class Child(Protocol):
    """A process that was started, as the arbiter sees it."""

    @property
    def pid(self) -> int: ...
    def was_begun(self, call_id: int) -> bool: ...
    def send(self, message: Message) -> bool: ...
    def kill(self) -> None: ...
    def show_stacks(self, then: Callable[[], object]) -> None: ...
    def reopen_log_files(self) -> None: ...
    def feel_pulse(self) -> None: ...
    def had_pulse(self) -> bool: ...


class Spawner(Protocol):
    """Starts processes. ``on_gone`` is called once, after every message and when the process is reaped."""

    async def spawn(
        self,
        config: DirtyConfig,
        on_message: Callable[[Message], None],
        on_line: Callable[[str], None],
        on_gone: Callable[[ExitStatus], None],
    ) -> Child: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Birth:
    """A process just started, with our ends of what connects it to us."""

    popen: subprocess.Popen[bytes]
    sock: socket.socket
    claims: Claims
    #: None when nobody will feel it
    pulse: Pulse | None

    def undo(self) -> None:
        """End the process, reap it, close everything."""
        self.popen.kill()
        self.popen.wait()
        for ours in (self.popen.stdout, self.sock):
            if ours is not None:
                ours.close()
        self.close_notes()

    def close_notes(self) -> None:
        """Give back what can be asked without the process. May be called twice."""
        self.claims.close()
        if self.pulse is not None:
            self.pulse.close()


class ProcessSpawner:
    """Start workers as fresh interpreters of the same Python."""

    def __init__(self) -> None:
        # The kernel's "kill me when my parent dies" means the parent's *thread*: this one lives as long as we do.
        # Children inherit its signal mask, so a Ctrl-C does not hit them before they are ready for it.
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="dirtybus-spawner", initializer=block_signals_of_workers
        )
        self._oom_counter = OomCounter(oom_kills)

    async def spawn(
        self,
        config: DirtyConfig,
        on_message: Callable[[Message], None],
        on_line: Callable[[str], None],
        on_gone: Callable[[ExitStatus], None],
    ) -> ChildProcess:
        """Start one process, with the environment and the limits of ``config``. Cancelling it leaves none.

        Raises:
            OSError: the system refuses another process or descriptor; `on_gone` is not called.
        """
        birth = in_thread(self._bear, config, executor=self._thread)
        try:
            born = await asyncio.shield(birth)
        except asyncio.CancelledError:
            birth.add_done_callback(_undo)
            await asyncio.wait([birth])
            raise
        child = ChildProcess(born, on_gone, self._oom_counter)
        try:
            await child.attach(Connection(Side.CALLER, config.max_payload_bytes), on_message, on_line)
        except BaseException:
            child.give_up()
            raise
        return child

    def close(self) -> None:
        """Stop the thread that starts processes. May be called twice."""
        self._thread.shutdown(wait=False)

    def _bear(self, config: DirtyConfig) -> _Birth:
        with ExitStack() as undo:
            claims = Claims.create()
            undo.callback(claims.close)
            pulse = Pulse() if config.heartbeat_timeout_s else None
            if pulse is not None:
                undo.callback(pulse.close)
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                popen = self._popen(config, theirs.fileno(), claims.fd, -1 if pulse is None else pulse.fd)
            undo.pop_all()
        claims.close_fd()
        if pulse is not None:
            pulse.close_fd()
        ours.setblocking(False)
        return _Birth(popen, ours, claims, pulse)

    def _popen(self, config: DirtyConfig, *fds: int) -> subprocess.Popen[bytes]:
        arguments = [str(number) for number in (*fds, config.max_payload_bytes, os.getpid())]
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            # -P: a file in the working directory must not pass for a module of the standard library
            [sys.executable, "-P", "-m", "dirtybus.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[fd for fd in fds if fd >= 0],
            env=child_environment(os.environ, config),
        )


def _undo(birth: asyncio.Future[_Birth]) -> None:
    if not birth.cancelled() and birth.exception() is None:
        birth.result().undo()


class ChildProcess:
    """One process, its link and what it prints, until all three have ended."""

    def __init__(self, birth: _Birth, on_gone: Callable[[ExitStatus], None], oom_counter: OomCounter) -> None:
        self._birth = birth
        self._popen = birth.popen
        self._on_gone = on_gone
        self._oom_counter = oom_counter
        self._was_killed = False
        self._link: Link | None = None
        self._pidfd: int | None = None
        self._status: ExitStatus | None = None
        self._is_attached = False
        self._link_ended = False
        self._told = False
        self._rest: asyncio.TimerHandle | None = None
        self._output: Output | None = None

    @property
    def pid(self) -> int:
        return self._popen.pid

    def was_begun(self, call_id: int) -> bool:
        """Whether the process may have begun the call; to be asked before `on_gone` returns."""
        return self._birth.claims.was_begun(call_id)

    async def attach(
        self, connection: Connection, on_message: Callable[[Message], None], on_line: Callable[[str], None]
    ) -> None:
        """Begin to read the link and the output, and to wait for the end; that is told after this has returned."""
        loop = asyncio.get_running_loop()
        self._watch_exit(loop)
        assert self._popen.stdout is not None
        self._output = await Output.open(self._popen.stdout, on_line)
        self._link = await open_link(self._birth.sock, Link(connection, on_message, self._on_link_lost))
        self._is_attached = True
        loop.call_soon(self._settle)

    def give_up(self) -> None:
        """Undo a birth that could not be completed; nobody is told."""
        self._told = True
        self._forget_pidfd()
        if self._output is not None:
            self._output.close()
        self._birth.undo()

    def send(self, message: Message) -> bool:
        """Send to the process; False when its link is gone."""
        return self._link is not None and self._link.send(message)

    def kill(self) -> None:
        """End the process now. May be called twice, and from a signal's path: it awaits nothing."""
        if self._status is None and self._popen.poll() is None:
            self._was_killed = True
            self._popen.kill()

    def show_stacks(self, then: Callable[[], object]) -> None:
        """Have the process print the stack of each of its threads, and call ``then`` when they are there.

        That is within a third of a second, also when it cannot print; not at all when the process has ended by then.
        """
        self._popen.send_signal(ASK_FOR_STACKS)
        assert self._output is not None
        self._output.when_quiet(then, for_s=_QUIET_S, within_s=_STACKS_WITHIN_S)

    def reopen_log_files(self) -> None:
        """Have the process open its log files anew."""
        self._popen.send_signal(ASK_FOR_LOG_FILES)

    def feel_pulse(self) -> None:
        """Send what a process that is not stuck sends back; see `had_pulse`."""
        if self._birth.pulse is not None:
            self._birth.pulse.ask()

    def had_pulse(self) -> bool:
        """Whether the process has sent back anything since the last look.

        True where nobody can feel it: one that was started without a line is never taken for stuck, also when a reload
        has brought a heartbeat_timeout meanwhile.
        """
        return self._birth.pulse is None or self._birth.pulse.was_answered()

    # --- the end: the process is reaped and its last words are read, in whichever order ---

    def _watch_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pidfd = open_pidfd(self.pid)
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._on_exit)
            return

        def wait() -> None:
            self._popen.wait()
            with suppress(RuntimeError):  # the loop was closed; nobody wants to know
                loop.call_soon_threadsafe(self._on_exit)

        # no such descriptor here (macOS): a thread waits instead, and not one of the few that the loop lends to all
        threading.Thread(target=wait, name=f"dirtybus-wait-{self.pid}", daemon=True).start()

    def _on_exit(self) -> None:
        code = self._popen.poll()
        if code is None or self._status is not None:
            return
        self._forget_pidfd()
        self._status = self._explained(ExitStatus.of(code))
        self._settle()

    def _explained(self, status: ExitStatus) -> ExitStatus:
        status = replace(status, is_ours=self._was_killed)
        if not status.is_unexplained:
            return status
        return replace(status, oom_kills=self._oom_counter.look(asyncio.get_running_loop().time()))

    def _forget_pidfd(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _on_link_lost(self, exc: Exception | None) -> None:
        self._link_ended = True
        self._settle()

    def _settle(self) -> None:
        if self._told or not self._is_attached:
            return
        if self._status is not None and self._link_ended:
            self._tell(self._status)
        elif self._rest is None and (self._status is not None or self._link_ended):
            self._rest = asyncio.get_running_loop().call_later(_REST_S, self._finish)

    def _tell(self, status: ExitStatus) -> None:
        self._told = True
        if self._rest is not None:
            self._rest.cancel()
        assert self._output is not None
        self._output.finish()
        try:
            self._on_gone(status)
        finally:
            self._birth.close_notes()

    def _finish(self) -> None:
        """One end came and the other did not: a grandchild holds the socket, or the process lives without it."""
        self.kill()
        if self._link is not None:
            self._link.abort()
