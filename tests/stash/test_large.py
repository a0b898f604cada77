"""Values of a mebibyte and more: they go by reference where that can be, and whole where not."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dirtybus.client import DirtyClient
from dirtybus.shared_memory import THRESHOLD_BYTES, SharedBody, SharedRef, is_available
from dirtybus.stash import Stash, StashOp, StashReply
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.ops_entries import Get, PutShared
from dirtybus.stash.port import LocalPort
from tests.arbiter.serving import serving

pytestmark = pytest.mark.skipif(not is_available(), reason="this system has no sealed memory")

LARGE = bytes(range(256)) * (THRESHOLD_BYTES // 256 + 1)
STASHING = "tests.apps.stashing:Stashing"


class Watched:
    """A port that keeps what was asked, and may tamper with it."""

    def __init__(self, keeper: Keeper) -> None:
        self._port = LocalPort(keeper)
        self.asked: list[StashOp] = []
        self.before: Callable[[StashOp], object] = lambda _: None
        self.after: Callable[[StashOp], object] = lambda _: None

    def ask(self, op: StashOp) -> StashReply:
        self.asked.append(op)
        self.before(op)
        reply = self._port.ask(op)
        self.after(op)
        return reply

    def kinds(self) -> list[type]:
        return [type(op) for op in self.asked]


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


@pytest.fixture
def port(keeper: Keeper) -> Watched:
    return Watched(keeper)


@pytest.fixture
def handle(port: Watched) -> Stash:
    return Stash(port)


def test_a_large_value_is_neither_sent_nor_copied(keeper: Keeper, port: Watched, handle: Stash) -> None:
    handle.put("t", "k", LARGE)
    assert port.kinds() == [PutShared]
    assert handle.get("t", "k") == LARGE
    assert handle.info("t")["bytes"] > len(LARGE)
    entry = next(iter(keeper.state.tables.get("t").entries.after(None)))[2]
    assert isinstance(entry.value, SharedBody)


def test_an_array_lives_in_the_shared_pages_and_is_the_readers_own(handle: Stash) -> None:
    numpy = pytest.importorskip("numpy")
    handle.put("t", "k", numpy.arange(500_000))
    mine, yours = handle.get("t", "k"), handle.get("t", "k")
    mine[:] = 7
    assert yours[3] == 3
    assert handle.get("t", "k")[3] == 3


def test_where_the_owner_cannot_see_the_memory_the_value_is_sent(
    port: Watched, handle: Stash, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SharedBody, "open", classmethod(lambda _cls, _ref: None))
        handle.put("t", "k", LARGE)
        assert [kind.__name__ for kind in port.kinds()] == ["PutShared", "Put"]
    assert handle.get("t", "k") == LARGE


def test_where_the_reader_cannot_see_the_memory_the_value_is_sent(
    port: Watched, handle: Stash, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle.put("t", "k", LARGE)
    port.asked.clear()
    monkeypatch.setattr(SharedBody, "open", classmethod(lambda _cls, _ref: None))
    assert handle.get("t", "k") == LARGE
    assert port.asked[0] != port.asked[1]
    assert port.kinds() == [Get, Get]


@pytest.mark.parametrize("then", ["gone", "another"])
def test_a_value_that_goes_between_the_answer_and_the_look_is_asked_for_again(
    keeper: Keeper, port: Watched, handle: Stash, then: str
) -> None:
    other = Stash(LocalPort(keeper))
    handle.put("t", "k", LARGE)

    def change(op: StashOp) -> None:
        port.after = lambda _: None
        assert isinstance(op, Get)
        if then == "gone":
            other.delete("t", "k")
        else:
            other.put("t", "k", LARGE[::-1])
        gc.collect()

    port.after = change
    assert handle.get("t", "k", "none") == ("none" if then == "gone" else LARGE[::-1])


def test_a_reference_to_anything_else_is_refused_and_stores_nothing(keeper: Keeper, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(LARGE)
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        ref = SharedRef(os.getpid(), opened.fileno(), status.st_size, status.st_ino)
        reply = LocalPort(keeper).ask(PutShared("t", b"k", ref))
    assert reply.wants_bytes
    assert not keeper.state.tables.names()


def test_everything_else_takes_a_large_value_as_any_other(handle: Stash) -> None:
    handle.put("t", "k", LARGE)
    assert handle.get_many("t", ["k", "x"]) == {"k": LARGE}
    assert handle.items("t") == [("k", LARGE)]
    assert not handle.cas("t", "k", b"", b"new")
    assert handle.cas("t", "k", LARGE, LARGE[::-1])
    handle.put("t", "k", LARGE)
    with handle.transaction() as tx:
        assert tx.get("t", "k") == LARGE
        tx.put("t", "other", LARGE)
        popped = tx.pop("t", "k")
    assert popped.value == LARGE
    assert handle.pop("t", "other") == LARGE
    assert handle.length("t") == 0


def test_no_descriptor_is_left(handle: Stash) -> None:
    gc.collect()  # what tests before this one left to the collector is not ours
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        handle.put("t", number % 3, LARGE)
        assert len(handle.get("t", number % 3)) == len(LARGE)
    handle.clear("t")
    handle.delete_table("t")
    while handle._port._port.keeper.sweep():  # type: ignore[attr-defined]
        pass
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_workers_and_clients_share_one_copy(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(STASHING, socket=path, workers=2) as arbiter:
        size = 8 * THRESHOLD_BYTES
        writer: Any = await arbiter.call(STASHING, "put_large", "t", "k", size)
        readers = {await arbiter.call(STASHING, "look_at_large", "t", "k") for _ in range(6)}
        assert {checksum for _, checksum in readers} == {size % 251}
        assert writer
        entry = next(iter(arbiter.stash.state.tables.get("t").entries.after(None)))[2]
        assert isinstance(entry.value, SharedBody)
        async with DirtyClient(path) as client:
            assert len(await client.stash_async.get("t", "k")) == size
            await client.stash_async.put("t", "mine", LARGE)
            assert await client.stash_async.get("t", "mine") == LARGE
