from __future__ import annotations

import errno
import os
import random
import resource
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dirtybus import shared_memory
from dirtybus.protocol.codec import decode_body
from dirtybus.shared_memory import SharedBody, SharedRef, is_available
from tests.shared_memory.things import PARTS, SEALABLE, WHOLE, Peer, descriptors, made, opened, soft_limit

pytestmark = pytest.mark.skipif(not is_available(), reason="this system has no sealed memory")


# --- bounds ---


def test_a_quarter_of_the_descriptors_may_be_bodies() -> None:
    with soft_limit(resource.RLIMIT_NOFILE, 400):
        before = descriptors()
        kept = []
        while (body := SharedBody.of(PARTS)) is not None:
            kept.append(body)
        assert len(kept) == 100
        assert descriptors() == before + 100
        assert SharedBody.open(kept[0].ref()) is None
        views = [body.view() for body in kept]
        assert descriptors() == before + 100
        assert views == [WHOLE] * 100
        views[0][0] = 0
        assert kept[0].view() == WHOLE
        kept.pop().close()
        assert opened(kept[0].ref()).read_bytes() == WHOLE


def test_views_take_part_in_the_bound() -> None:
    body = made()
    with soft_limit(resource.RLIMIT_NOFILE, 400):
        before = descriptors()
        views = [body.view() for _ in range(300)]
        assert descriptors() - before < 100
    assert views == [WHOLE] * 300


def test_many_threads_do_not_pass_the_bound() -> None:
    kept: list[SharedBody] = []
    most = 0

    def hoard() -> None:
        nonlocal most
        for _ in range(300):
            body = SharedBody.of(PARTS)
            if body is not None:
                kept.append(body)
            most = max(most, len(shared_memory._descriptors._held))
            if body is None and kept:
                kept.pop().close()

    with soft_limit(resource.RLIMIT_NOFILE, 400):
        threads = [threading.Thread(target=hoard) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(kept) <= 100
    assert most <= 100 + len(threads)
    assert len(shared_memory._descriptors._held) == len(kept)


def test_want_of_descriptors_is_none() -> None:
    body = made()
    ref = body.ref()
    fillers: list[int] = []
    with soft_limit(resource.RLIMIT_NOFILE, 400):
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                fillers.append(os.open("/dev/null", os.O_RDONLY))
        made_then, opened_then, view = SharedBody.of(PARTS), SharedBody.open(ref), body.view()
        for fd in fillers:
            os.close(fd)
        assert made_then is opened_then is None
        assert view == WHOLE
    assert opened(ref).read_bytes() == WHOLE


def test_a_body_over_a_limit_is_none_and_given_up_wholly() -> None:
    with soft_limit(resource.RLIMIT_FSIZE, 1 << 20):
        assert SharedBody.of([bytes(1 << 20), b"x"]) is None
        assert made(bytes(1 << 20)).size_bytes == 1 << 20


def test_a_system_without_sealed_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    shared_memory._device.cache_clear()
    assert not is_available()
    assert SharedBody.of(PARTS) is None


def test_a_system_without_proc_has_bodies_that_nobody_could_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> os.stat_result:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(os, "stat", missing)
    shared_memory._device.cache_clear()
    is_there, body = is_available(), SharedBody.of(PARTS)
    monkeypatch.undo()
    assert not is_there
    assert body is None


def test_a_body_is_not_to_be_executed() -> None:
    try:
        os.close(os.memfd_create("other", SEALABLE | shared_memory._MFD_NOEXEC_SEAL))
    except OSError:
        pytest.skip("this kernel does not know the flag")
    assert not os.fstat(made().ref().fd).st_mode & 0o111


def test_a_kernel_that_does_not_know_our_flag_is_asked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.memfd_create

    def older(name: str, flags: int) -> int:
        if flags & ~SEALABLE:
            raise OSError(errno.EINVAL, "Invalid argument")
        return create(name, flags)

    monkeypatch.setattr(os, "memfd_create", older)
    assert opened(made().ref()).read_bytes() == WHOLE


# --- the end of a body ---


def test_a_closed_body_is_not_used() -> None:
    body = made()
    view = body.view()
    body.close()
    body.close()
    for use in (body.ref, body.view, body.read_bytes):
        with pytest.raises(ValueError, match="18 bytes was closed"):
            use()
    assert view == WHOLE
    assert "closed" in repr(body)


def test_to_let_go_is_to_close() -> None:
    before = descriptors()
    body = made()
    assert descriptors() == before + 1
    del body
    assert descriptors() == before


def test_a_writer_that_is_killed_leaves_nothing() -> None:
    chance = random.Random(7)
    outlived = 0
    for _ in range(8):
        writer = Peer("flood")
        refs, bodies = [], []
        for _ in range(chance.randrange(1, 60)):
            ref = msgspec.json.decode(writer.line(), type=SharedRef)
            body = SharedBody.open(ref)  # the writer may have closed it by now
            refs.append(ref)
            if body is not None:
                bodies.append((body, ref.size_bytes))
        sum(range(chance.randrange(30_000)))  # it goes on meanwhile
        writer.kill()
        refs += writer.rest()
        writer.close()
        assert [SharedBody.open(ref) for ref in refs] == [None] * len(refs)
        outlived += len(bodies)
        while bodies:
            body, size_bytes = bodies.pop()
            assert body.size_bytes == size_bytes
            check_counts_up(body)
            body.close()
        assert not memory_in_use() & {ref.inode for ref in refs}
    assert outlived


def check_counts_up(body: SharedBody) -> None:
    array = decode_body(body.view())
    assert (array == np.arange(len(array))).all()


def memory_in_use() -> set[int]:
    """The inode of each file of memory that any process has open."""
    inodes = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(path).startswith("/memfd:dirtybus"):
                inodes.add(path.stat().st_ino)
        except OSError:
            continue  # it has ended, or is not ours
    return inodes
