from __future__ import annotations

import errno
import fcntl
import mmap
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dirtybus import shared_memory
from dirtybus.protocol.codec import decode_body, encode_body
from dirtybus.shared_memory import SharedBody, is_available
from tests.shared_memory.things import (
    ITEMS,
    ROOT,
    WHOLE,
    Peer,
    address,
    array_body,
    descriptors,
    file_of,
    made,
    mappings,
    opened,
)

pytestmark = pytest.mark.skipif(not is_available(), reason="this system has no sealed memory")


# --- there and back ---


def test_what_was_written_is_read() -> None:
    body = made()
    assert body.size_bytes == len(WHOLE)
    other = opened(body.ref())
    assert other.ref().fd != body.ref().fd
    assert other.ref().inode == body.ref().inode
    assert other.read_bytes() == other.view() == body.read_bytes() == WHOLE


def test_many_parts_are_written_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    writev, sizes = os.writev, iter(range(1, 1_000_000))

    def write_some(fd: int, chunks: list[memoryview]) -> int:
        assert len(chunks) <= 1024
        whole = b"".join(chunks)
        return writev(fd, [whole[: next(sizes)]])

    parts = [bytes([number % 251]) * (number % 7) for number in range(5000)]
    assert made(*parts).read_bytes() == b"".join(parts)
    monkeypatch.setattr(os, "writev", write_some)
    assert made(*parts).read_bytes() == b"".join(parts)


def test_a_body_is_read_wholly_however_little_one_read_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    body, pread = made(), os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 5), offset))
    assert body.read_bytes() == WHOLE


def test_an_empty_body_is_none() -> None:
    assert SharedBody.of([]) is None
    assert SharedBody.of([b"", memoryview(b"")]) is None


def test_a_value_goes_to_another_process_and_comes_back(peer: Peer) -> None:
    body = array_body()
    assert peer.ask("read", body.ref()) == sum(range(ITEMS))
    ref = peer.make()
    assert ref.pid == peer.process.pid
    theirs = opened(ref)
    peer.kill()
    assert int(decode_body(theirs.view()).sum()) == sum(range(ITEMS))


def test_a_program_that_ends_with_bodies_and_views_says_nothing() -> None:
    script = (
        "from dirtybus.shared_memory import SharedBody; body = SharedBody.of([b'x']); view = body.view();"
        "again = SharedBody.open(body.ref())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", script],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == b""


def test_neither_a_body_nor_a_view_goes_to_a_child() -> None:
    body = made()
    other = opened(body.ref())
    view = other.view()
    listing = [sys.executable, "-c", "import os; print([os.readlink(x) for x in os.scandir('/proc/self/fd')])"]
    shown = subprocess.run(listing, close_fds=False, capture_output=True, timeout=30, check=False).stdout
    assert b"memfd" not in shown
    assert view == WHOLE


# --- nobody can change it ---


def test_a_sealed_body_cannot_be_changed() -> None:
    body = made()
    with file_of(os.open(f"/proc/self/fd/{body.ref().fd}", os.O_RDWR)) as ref:
        for fd in (body.ref().fd, ref.fd):
            for change in (
                lambda fd=fd: os.pwrite(fd, b"x", 0),
                lambda fd=fd: os.pwrite(fd, b"x", len(WHOLE)),
                lambda fd=fd: os.ftruncate(fd, 1),
                lambda fd=fd: os.ftruncate(fd, 4096),
                lambda fd=fd: mmap.mmap(fd, len(WHOLE), flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE),
                lambda fd=fd: fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
            ):
                with pytest.raises(OSError) as refusal:
                    change()
                assert refusal.value.errno == errno.EPERM
    assert body.read_bytes() == WHOLE


def test_what_one_reader_writes_no_other_sees(peer: Peer) -> None:
    body = array_body()
    mine = decode_body(opened(body.ref()).view())
    beside = decode_body(opened(body.ref()).view())
    assert peer.ask("write", body.ref()) == 7 * ITEMS
    assert int(mine.sum()) == sum(range(ITEMS))
    mine[:] = 1
    assert int(mine.sum()) == ITEMS
    assert peer.ask("read", body.ref()) == int(beside.sum()) == sum(range(ITEMS))
    assert int(decode_body(body.read_bytes()).sum()) == sum(range(ITEMS))


# --- nothing is copied, and nothing is left ---


def test_arrays_live_in_the_mapping_and_keep_it() -> None:
    value = {"one": np.arange(ITEMS), "two": np.arange(ITEMS, dtype=np.float32), "text": "x"}
    body = made(*encode_body(value))
    other = opened(body.ref())
    inode = other.ref().inode
    read = decode_body(other.view())
    other.close()
    body.close()
    (pages,) = mappings(inode)
    for name in ("one", "two"):
        array = read[name]
        assert array.flags.writeable
        assert address(array) in pages
        assert address(array) + array.nbytes - 1 in pages
        assert (array == value[name]).all()
    kept = read["two"][10:20].reshape(2, 5)
    del read, array
    assert mappings(inode) == [pages]
    assert kept[1, 4] == 19
    del kept
    assert not mappings(inode)


def test_a_value_without_arrays_leaves_no_mapping() -> None:
    body = made(*encode_body([b"x" * 100_000, "text", bytearray(100_000)]))
    inode = body.ref().inode
    value = decode_body(body.view())
    assert value == [b"x" * 100_000, "text", bytearray(100_000)]
    assert not mappings(inode)


def test_reading_takes_a_page_of_ours_only_when_it_is_written() -> None:
    array = decode_body(array_body().view())
    assert int(array.sum()) == sum(range(ITEMS))
    assert private_pages_bytes() == 0
    array[0] = 1
    assert 0 < private_pages_bytes() <= 2 * mmap.PAGESIZE


def private_pages_bytes() -> int:
    inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = "/memfd:dirtybus" in line
        elif inside and line.startswith("Anonymous:"):
            total += int(line.split()[1]) * 1024
    return total


def test_ten_thousand_round_trips_leave_nothing() -> None:
    parts = encode_body(np.arange(1000))
    before = descriptors()
    for _ in range(10_000):
        body = made(*parts)
        other = opened(body.ref())
        body.close()
        array = decode_body(other.view())
        other.close()
        assert array[999] == 999
    del array
    assert descriptors() == before


def test_refusals_leave_nothing() -> None:
    body = made()
    ref = body.ref()
    wrong = [
        msgspec.structs.replace(ref, inode=ref.inode + 1),
        msgspec.structs.replace(ref, size_bytes=1),
        msgspec.structs.replace(ref, fd=1),
        msgspec.structs.replace(ref, fd=10**9),
    ]
    before = descriptors()
    for _ in range(1000):
        assert [SharedBody.open(each) for each in wrong] == [None] * 4
    assert descriptors() == before
    assert len(shared_memory._descriptors._held) == 1
