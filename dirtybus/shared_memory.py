"""A large body in sealed memory, and the reference by which another process gets it. Knows no socket and no stash."""

from __future__ import annotations

import errno
import fcntl
import functools
import mmap
import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

__all__ = ["THRESHOLD_BYTES", "SharedBody", "SharedRef", "is_available"]

#: From here on a body goes by reference. Against a worker's own link to the owner, a put of this size takes 0.7 of the
#: time, and a get that reads all of it 0.2. At a quarter of the size it still takes 0.7 and 0.4, but what that saves is
#: not worth a descriptor, of which there are few; at an eighth it saves nothing. Over a bare pair of sockets, without
#: our framing and its copies, a put gains from 64 times the size on only.
THRESHOLD_BYTES: Final = 1024 * 1024

#: what the kernel shows of ours in /proc/<pid>/fd
_NAME: Final = "dirtybus"
_LINK: Final = f"/memfd:{_NAME}"
#: from Linux 6.3 on; where vm.memfd_noexec is 2, the kernel makes none without it
_MFD_NOEXEC_SEAL: Final = 8
#: IOV_MAX of Linux
_MAX_PARTS: Final = 1024
#: the share of the process's descriptors that may be bodies
_SHARE_OF_DESCRIPTORS: Final = 4
if sys.platform == "linux":
    _SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
else:
    _SEALS: Final = 0


class SharedRef(msgspec.Struct, frozen=True):
    """Where a `SharedBody` of another process is to be had, as long as that process keeps it.

    The number of a descriptor is soon used again; ``inode`` says which file was meant.
    """

    pid: int
    fd: int
    size_bytes: int
    inode: int


class SharedBody:
    """A body in memory that nobody can change or shorten any more, and one descriptor of it.

    The memory is counted, in its control group, to the process that wrote it, and is free when the last descriptor and
    the last view have gone, in whichever process. To let go of a body is to close it; `close` is for those who know
    that no other thread is using it. Made by `of` and `open`.
    """

    __slots__ = ("_fd", "_held", "_inode", "size_bytes")

    def __init__(self, fd: int, held: object) -> None:
        status = os.fstat(fd)
        self._fd = fd
        self._held = held
        self._inode = status.st_ino
        self.size_bytes = status.st_size

    @classmethod
    def of(cls, parts: Sequence[bytes | bytearray | memoryview]) -> SharedBody | None:
        """Write ``parts``, one after the other, and seal what was written.

        None when that cannot be, for whatever reason: not on this system, an empty body, a bound of memory or
        descriptors (ours is a quarter of the process's). Then the bytes themselves have to be sent.
        """
        chunks = [memoryview(part).cast("B") for part in parts if len(part)]
        return cls._holding(lambda: _written(chunks)) if chunks and is_available() else None

    @classmethod
    def open(cls, ref: SharedRef) -> SharedBody | None:
        """Return the body that ``ref`` names, with a descriptor of our own.

        Whatever ``ref`` says, this neither waits nor opens anything that is not sealed memory. None when it is gone or
        is not what ``ref`` says, when we may not (another user or pid namespace, a process that is not dumpable), and
        when we have no descriptor left. Then the bytes themselves have to be asked for.
        """
        if ref.pid <= 0 or ref.fd < 0 or ref.size_bytes <= 0:
            return None
        return cls._holding(lambda: _opened(ref))

    @classmethod
    def _holding(cls, get: Callable[[], int | None]) -> SharedBody | None:
        held = _descriptors.take()
        if held is None:
            return None
        body = None
        try:
            fd = get()
            if fd is not None:
                body = cls(fd, held)
        except OSError:
            return None
        finally:
            if body is None:
                _descriptors.give_back(held)
        return body

    def ref(self) -> SharedRef:
        """Return what another process has to know; it must have opened the body before we close it.

        Raises:
            ValueError: the body is closed.
        """
        return SharedRef(os.getpid(), self._descriptor(), self.size_bytes, self._inode)

    def view(self) -> memoryview:
        """Return the body as writable memory of this process: a page is copied when it is first written to.

        What lives in it (arrays of `decode_body`) keeps it; there is nothing to close. Where the system has no
        mapping or descriptor left, it is an ordinary copy.

        Raises:
            ValueError: the body is closed.
            MemoryError: neither could be had.
        """
        mapping = _mapped(self._descriptor(), self.size_bytes)
        return memoryview(bytearray(self.read_bytes()) if mapping is None else mapping)

    def read_bytes(self) -> bytes:
        """Return a copy of the body.

        Raises:
            ValueError: the body is closed.
        """
        fd = self._descriptor()
        chunks: list[bytes] = []
        offset = 0
        # one read gives 2 GiB at most
        while chunk := os.pread(fd, self.size_bytes - offset, offset):
            chunks.append(chunk)
            offset += len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Give the descriptor back. Views stay as they are. May be called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            _descriptors.give_back(self._held)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()

    def __repr__(self) -> str:
        """Show what it is, never what it holds."""
        return f"<SharedBody {self.size_bytes} bytes{', closed' if self._fd < 0 else ''}>"

    def _descriptor(self) -> int:
        if self._fd < 0:
            raise ValueError(f"the shared body of {self.size_bytes} bytes was closed; use it before that")
        return self._fd


def is_available() -> bool:
    """Whether this system has sealed memory and shows descriptors in /proc. A peer may still not be let look there."""
    try:
        _device()
    except OSError:
        return False
    return True


class _Descriptors:
    """How many descriptors are bodies. Safe for threads and, as it takes no lock, for finalizers."""

    def __init__(self) -> None:
        self._held: set[object] = set()

    def take(self) -> object | None:
        """Return a token to give back, or None when there are too many."""
        held = object()
        self._held.add(held)
        # counted with ours: of several threads at the bound all may be refused, but none is let through
        if len(self._held) > os.sysconf("SC_OPEN_MAX") // _SHARE_OF_DESCRIPTORS:
            self._held.discard(held)
            return None
        return held

    def give_back(self, held: object) -> None:
        self._held.discard(held)


_descriptors: Final = _Descriptors()


class _Mapping(mmap.mmap):
    """Pages of a body, private to this process. Views refer to it, and the last one unmaps it."""

    held: object = None

    def __del__(self) -> None:
        _descriptors.give_back(self.held)


def _mapped(fd: int, size_bytes: int) -> _Mapping | None:
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    held = None
    try:
        if sys.version_info >= (3, 13):
            return _Mapping(fd, size_bytes, flags=mmap.MAP_PRIVATE, prot=protection, trackfd=False)
        # before that, a mapping keeps a duplicate of the descriptor
        held = _descriptors.take()
        if held is None:
            return None
        mapping = _Mapping(fd, size_bytes, flags=mmap.MAP_PRIVATE, prot=protection)
    except OSError:
        _descriptors.give_back(held)
        return None
    mapping.held = held
    return mapping


@functools.cache  # keeps no exception: a want of descriptors passes
def _device() -> int:
    """Return the device of all memory files. Those of huge pages have another, and may fail a reader when touched."""
    fd = _made()
    try:
        return os.stat(f"/proc/self/fd/{fd}").st_dev
    finally:
        os.close(fd)


def _made() -> int:
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, "this system has no sealed memory")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(_NAME, flags | _MFD_NOEXEC_SEAL)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        return os.memfd_create(_NAME, flags)


def _written(chunks: list[memoryview]) -> int:
    fd = _made()
    try:
        _write(fd, chunks)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write(fd: int, chunks: list[memoryview]) -> None:
    done = 0
    while done < len(chunks):
        written = os.writev(fd, chunks[done : done + _MAX_PARTS])
        if not written:
            raise OSError(errno.ENOSPC, "the memory file takes no more")
        while done < len(chunks) and written >= len(chunks[done]):
            written -= len(chunks[done])
            done += 1
        if written:
            chunks[done] = chunks[done][written:]


def _opened(ref: SharedRef) -> int | None:
    # O_PATH opens nothing yet: no pipe and no device notices. The second open is of the very file that was looked at
    path_fd = os.open(f"/proc/{ref.pid}/fd/{ref.fd}", os.O_PATH | os.O_CLOEXEC)
    try:
        if not _is_ours(path_fd):
            return None
        fd = os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(path_fd)
    try:
        is_right = _is_sealed(fd, ref)
    except BaseException:
        os.close(fd)
        raise
    if not is_right:
        os.close(fd)
        return None
    return fd


def _is_ours(path_fd: int) -> bool:
    if not os.readlink(f"/proc/self/fd/{path_fd}").startswith(_LINK):
        return False  # not even asked for its status, which a file system of somebody's own may be slow to tell
    status = os.fstat(path_fd)
    return stat.S_ISREG(status.st_mode) and status.st_dev == _device()


def _is_sealed(fd: int, ref: SharedRef) -> bool:
    # in this order: until it is sealed, its size may change
    if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        return False
    status = os.fstat(fd)
    return (status.st_size, status.st_ino) == (ref.size_bytes, ref.inode)
