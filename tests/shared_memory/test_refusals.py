from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from dirtybus.shared_memory import SharedBody, is_available
from tests.shared_memory.things import ALL_SEALS, SEALABLE, WHOLE, Peer, array_body, file_of, made, memory_file, opened

pytestmark = pytest.mark.skipif(not is_available(), reason="this system has no sealed memory")


@pytest.mark.parametrize("missing", [ALL_SEALS, *(1 << bit for bit in range(4))])
def test_memory_that_is_not_wholly_sealed_is_refused(missing: int) -> None:
    with file_of(memory_file(b"content", ALL_SEALS & ~missing)) as ref:
        assert SharedBody.open(ref) is None


def test_memory_that_is_wholly_sealed_is_taken() -> None:
    """Or else the refusals here would prove nothing."""
    with file_of(memory_file(b"content", ALL_SEALS)) as ref:
        assert opened(ref).read_bytes() == b"content"


def test_memory_without_content_is_refused() -> None:
    with file_of(memory_file(b"", ALL_SEALS)) as ref:
        assert SharedBody.open(msgspec.structs.replace(ref, size_bytes=0)) is None


def test_memory_of_another_name_is_refused() -> None:
    with file_of(memory_file(b"content", ALL_SEALS, name="other")) as ref:
        assert SharedBody.open(ref) is None


def test_memory_of_huge_pages_is_refused() -> None:
    try:
        fd = os.memfd_create("dirtybus", SEALABLE | os.MFD_HUGETLB)
    except OSError:
        pytest.skip("this system has no huge pages")
    os.ftruncate(fd, 2 << 20)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, ALL_SEALS)
    with file_of(fd) as ref:
        assert SharedBody.open(ref) is None


def test_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memfd:dirtybus"
    path.write_bytes(b"content")
    with file_of(os.open(path, os.O_RDWR)) as ref:
        assert SharedBody.open(ref) is None
        path.unlink()
        assert SharedBody.open(ref) is None
    with file_of(os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE)) as ref:
        os.ftruncate(ref.fd, 4096)
        assert SharedBody.open(ref) is None


def test_what_is_refused_is_not_even_opened(tmp_path: Path) -> None:
    """A pipe would wake its writers, a device may start something."""
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"content")
    os.mkfifo(pipe)
    for path in (file, pipe):
        with file_of(os.open(path, os.O_PATH)) as ref, opens_of(path) as has_been_opened:
            assert SharedBody.open(ref) is None
            assert not has_been_opened()
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            assert has_been_opened()


@contextmanager
def opens_of(path: Path) -> Iterator[Callable[[], bool]]:
    """Tells whether the file has been opened since."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    in_open = 0x20

    def has_been_opened() -> bool:
        try:
            return bool(os.read(fd, 4096))
        except BlockingIOError:
            return False

    try:
        assert libc.inotify_add_watch(fd, bytes(path), in_open) >= 0, os.strerror(ctypes.get_errno())
        yield has_been_opened
    finally:
        os.close(fd)


def test_what_is_no_file_is_refused() -> None:
    ours, theirs = os.pipe()
    for fd in (ours, theirs, os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY), os.eventfd(0)):
        with file_of(fd) as ref:
            assert SharedBody.open(ref) is None


def test_another_size_or_inode_is_refused() -> None:
    body = made()
    ref = body.ref()
    for wrong in (
        msgspec.structs.replace(ref, size_bytes=ref.size_bytes - 1),
        msgspec.structs.replace(ref, size_bytes=ref.size_bytes + 1),
        msgspec.structs.replace(ref, inode=ref.inode + 1),
    ):
        assert SharedBody.open(wrong) is None
    assert opened(ref).read_bytes() == WHOLE


@pytest.mark.parametrize("field", ["pid", "fd", "size_bytes"])
def test_numbers_that_name_nothing_are_refused(field: str) -> None:
    body = made()
    for number in (-1, -(2**63), 2**63 - 1, *(() if field == "fd" else (0,))):
        assert SharedBody.open(msgspec.structs.replace(body.ref(), **{field: number})) is None


def test_a_descriptor_that_was_used_again_is_refused() -> None:
    body = made()
    stale = body.ref()
    body.close()
    assert SharedBody.open(stale) is None
    again = made()
    assert again.ref().fd == stale.fd
    assert SharedBody.open(stale) is None
    assert opened(again.ref()).read_bytes() == WHOLE


def test_what_another_process_closed_or_took_with_it_is_refused(peer: Peer) -> None:
    stale = peer.make(1000)
    peer.ask("close", 0)
    assert SharedBody.open(stale) is None
    again = peer.make(1000)
    assert again.fd == stale.fd
    assert SharedBody.open(stale) is None
    opened(again)
    peer.kill()
    assert SharedBody.open(again) is None


def test_the_same_descriptor_of_another_process_is_refused(peer: Peer) -> None:
    theirs = peer.make(1000)
    mine = array_body(1000)
    for wrong in (
        msgspec.structs.replace(mine.ref(), pid=theirs.pid),
        msgspec.structs.replace(mine.ref(), pid=theirs.pid, fd=theirs.fd),
        msgspec.structs.replace(theirs, pid=os.getpid(), fd=mine.ref().fd),
    ):
        assert SharedBody.open(wrong) is None


def test_memory_that_is_cut_and_sealed_while_we_look_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a reader would die of SIGBUS."""
    real = fcntl.fcntl
    with file_of(memory_file(b"x" * 8192, 0)) as ref:

        def cut_first(fd: int, command: int, argument: int = 0) -> int:
            if command == fcntl.F_GET_SEALS:
                os.ftruncate(ref.fd, 0)
                real(ref.fd, fcntl.F_ADD_SEALS, ALL_SEALS)
            return real(fd, command, argument)

        monkeypatch.setattr(fcntl, "fcntl", cut_first)
        assert SharedBody.open(ref) is None
