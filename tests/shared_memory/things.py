"""What the tests of shared memory share: another process, files of memory, what the system shows of them."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dirtybus.protocol.codec import encode_body
from dirtybus.shared_memory import SharedBody, SharedRef

ROOT = Path(__file__).resolve().parents[2]
PARTS: list[bytes | bytearray | memoryview] = [b"first ", bytearray(b"second "), memoryview(b"third")]
WHOLE = b"first second third"
ALL_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
SEALABLE = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
ITEMS = 200_000


class Peer:
    """Another process, which does what `peer` offers."""

    def __init__(self, role: str = "serve") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.shared_memory.peer", role],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str, argument: object) -> Any:
        assert self.process.stdin is not None
        plain = msgspec.json.encode(argument).decode()
        self.process.stdin.write(f"{command} {plain}\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.line())

    def make(self, items: int = ITEMS) -> SharedRef:
        return msgspec.convert(self.ask("make", items), SharedRef)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def rest(self) -> list[SharedRef]:
        """What it said before it was killed; the last line may be cut."""
        assert self.process.stdout is not None
        return [msgspec.json.decode(line, type=SharedRef) for line in self.process.stdout if line.endswith("\n")]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def made(*parts: bytes | bytearray | memoryview) -> SharedBody:
    body = SharedBody.of(parts or PARTS)
    assert body is not None
    return body


def opened(ref: SharedRef) -> SharedBody:
    body = SharedBody.open(ref)
    assert body is not None
    return body


def array_body(items: int = ITEMS) -> SharedBody:
    return made(*encode_body(np.arange(items)))


def mappings(inode: int) -> list[range]:
    """The addresses at which a file of memory is mapped into this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if fields[4] == str(inode) and fields[5].startswith("/memfd:"):
            start, end = (int(bound, 16) for bound in fields[0].split("-"))
            found.append(range(start, end))
    return found


def address(array: Any) -> int:
    start: int = array.__array_interface__["data"][0]
    return start


@contextmanager
def soft_limit(which: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


@contextmanager
def file_of(fd: int) -> Iterator[SharedRef]:
    """A reference to any descriptor of ours, as true as can be; closes it."""
    try:
        status = os.fstat(fd)
        yield SharedRef(os.getpid(), fd, status.st_size or 4096, status.st_ino)
    finally:
        os.close(fd)


def memory_file(content: bytes, seals: int, name: str = "dirtybus") -> int:
    fd = os.memfd_create(name, SEALABLE)
    os.write(fd, content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd
