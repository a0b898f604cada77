"""What the operating system does its own way: the one file that asks which system this is."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dirtybus.errors import ConfigError

__all__ = [
    "ASK_FOR_LOG_FILES",
    "ASK_FOR_STACKS",
    "address_of",
    "block_signals_of_workers",
    "connect_within",
    "die_with_parent",
    "has_news",
    "heed_owner_signals",
    "inherited_socket",
    "leave_stop_signals_to_parent",
    "oom_kills",
    "open_pidfd",
    "peer_uid",
    "rest_of",
]

_SUN_PATH_MAX = 107 if sys.platform == "linux" else 103  # sizeof(sockaddr_un.sun_path) - 1
_PR_SET_PDEATHSIG = 1
_RECEIVE_BYTES = 256 * 1024
_TIME = struct.Struct("@ll")  # struct timeval
#: what a terminal or a service manager sends to the whole process group
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: what an owner sends to a worker: open your log files anew; print the stack of every thread
ASK_FOR_LOG_FILES = signal.SIGUSR1
ASK_FOR_STACKS = signal.SIGUSR2
_OWNER_SIGNALS = (ASK_FOR_LOG_FILES, ASK_FOR_STACKS)


def peer_uid(sock: socket.socket) -> int | None:
    """Return the user id of the process at the other end of a Unix socket, or None where it cannot be known."""
    if sys.platform == "linux":
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)
    get_uid = getattr(sock, "getpeereid", None)  # macOS, from CPython 3.13 on
    return None if get_uid is None else int(get_uid()[0])


@contextmanager
def address_of(path: str) -> Iterator[str]:
    """Yield an address for `bind` or `connect` that fits the system's limit, however long ``path`` is.

    Raises:
        ConfigError: the path is too long and this system has no way round.
    """
    if len(os.fsencode(path)) <= _SUN_PATH_MAX:
        yield path
        return
    directory, name = os.path.split(os.path.abspath(path))
    if sys.platform != "linux" or len(os.fsencode(name)) > 64:
        raise ConfigError(
            f"socket path {path!r} has {len(os.fsencode(path))} bytes, over the system's {_SUN_PATH_MAX}; "
            "choose a shorter one"
        )
    # the kernel resolves the descriptor's link, so the address stays short
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def connect_within(sock: socket.socket, address: str, timeout_s: float | None) -> None:
    """Connect a blocking Unix socket, waiting for a place in the listener's queue.

    A socket with a timeout of Python's own does not wait: a full queue fails it at once.

    Raises:
        BlockingIOError: no place came free within ``timeout_s`` seconds.
        OSError: nobody listens there, or we may not.
    """
    whole_s, part_s = divmod(timeout_s or 0.0, 1.0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(int(whole_s), int(part_s * 1e6)))
    sock.connect(address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))


def block_signals_of_workers() -> None:
    """Hold back from this thread, and from the processes that it starts, what a worker is not ready for at birth.

    A worker lets the signals in by `leave_stop_signals_to_parent` and `heed_owner_signals`.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOP_SIGNALS, *_OWNER_SIGNALS))


def heed_owner_signals(reopen_log_files: Callable[[], object]) -> None:
    """Do what the owner asks for by signal: print the stack of every thread, or call ``reopen_log_files``.

    Stacks are printed to descriptor 2 whatever the process is doing, also in C code that holds the interpreter lock;
    the files are seen to between two instructions of the main thread.
    """
    faulthandler.register(ASK_FOR_STACKS, file=2, all_threads=True, chain=False)
    signal.signal(ASK_FOR_LOG_FILES, lambda number, frame: reopen_log_files())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OWNER_SIGNALS)


def leave_stop_signals_to_parent() -> None:
    """Do nothing on SIGINT, SIGTERM and SIGHUP, which our parent gets too: it decides when we stop.

    Processes that we start or fork have the system's own treatment of them, so that they can be stopped as usual.
    """
    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            # not SIG_IGN, which every program that we start would inherit
            signal.signal(number, _do_nothing)
            signal.siginterrupt(number, False)
    # held back while a fork is under way: one that comes before the child treats them as it should waits for that
    os.register_at_fork(
        before=_block_stop_signals, after_in_child=_take_stop_signals, after_in_parent=_unblock_stop_signals
    )
    _unblock_stop_signals()


def _block_stop_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)


def _unblock_stop_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)


def _do_nothing(number: int, frame: object) -> None:
    """See `leave_stop_signals_to_parent`."""


def _take_stop_signals() -> None:
    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
    _unblock_stop_signals()


def die_with_parent(parent_pid: int) -> bool:
    """Ask the kernel to kill this process when its parent dies, even while C code holds the interpreter lock.

    Returns False where the system cannot: then only the end of the link tells, once Python runs again.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # 5 ms that only workers pay

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(1)
    return True


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, or None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # e.g. a sandbox that forbids the call
        return None


def oom_kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory, in our control group or else on the machine.

    None where the system does not say.
    """
    for path in _oom_counters():
        try:
            with open(path, encoding="ascii") as file:
                counts = dict(line.split() for line in file)
            return int(counts["oom_kill"])
        except (OSError, ValueError, KeyError):
            continue  # not this version of control groups, or not this system
    return None


def _oom_counters() -> Iterator[str]:
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        groups = []
    for _, controllers, path in groups:
        if not controllers:
            yield f"/sys/fs/cgroup{path}/memory.events"
        elif "memory" in controllers.split(","):
            yield f"/sys/fs/cgroup/memory{path}/memory.oom_control"
    yield "/proc/vmstat"


def inherited_socket(fd: int) -> socket.socket:
    """Return the stream socket that a parent left us as ``fd``; our own children will not get it."""
    os.set_inheritable(fd, False)
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd)


def has_news(sock: socket.socket) -> bool:
    """Whether a read would find bytes or the peer's end, without taking them and without waiting."""
    try:
        sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a broken link: the reader will find out
    return True


def rest_of(sock: socket.socket) -> Iterator[bytes]:
    """Yield what came before the peer's end, without waiting; a write that failed may have hidden it from a reader."""
    try:
        while received := sock.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT):
            yield received
    except OSError:
        return  # there is no more
