from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from dirtybus.errors import LeaseHeld, LeaseLost
from dirtybus.stash import AsyncStash, Stash
from dirtybus.stash.keeper import Keeper
from dirtybus.stash.op import StashReply
from dirtybus.stash.ops_leases import Acquire
from dirtybus.stash.sweeper import Sweeper


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_lease_is_held_by_one_and_the_others_are_counted(handle: Stash) -> None:
    with handle.lease("job", 30) as first:
        with pytest.raises(LeaseHeld, match="free in at most 30 s"), handle.lease("job"):
            pass
        assert handle.lease_info("job")["skipped"] == 1
        before = first.fencing
    with handle.lease("job") as second:
        assert second.fencing > before
    assert handle.lease_info("job")["holders"] == []


def test_leaving_the_block_of_a_lost_lease_says_so(handle: Stash) -> None:
    with pytest.raises(LeaseLost), handle.lease("job", 0.02, renew=False) as lease:
        while not lease.is_lost:
            time.sleep(0.001)
    with pytest.raises(ValueError, match="mine"), handle.lease("job", 0.02, renew=False) as lease:
        while not lease.is_lost:
            time.sleep(0.001)
        raise ValueError("mine")


def test_a_lease_is_renewed_while_its_thread_lives(handle: Stash) -> None:
    with handle.lease("job", 0.15) as lease:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            lease.check()
            time.sleep(0.005)
    kept = handle.lease("job", 0.15)  # it is there to the end, unlike the thread
    thread = threading.Thread(target=kept.acquire)
    thread.start()
    thread.join()
    until = time.monotonic() + 5
    while handle.lease_info("job")["holders"]:
        assert time.monotonic() < until, "it is renewed for a thread that has ended"
        time.sleep(0.005)
    assert kept.is_lost


def test_once_is_true_once(handle: Stash) -> None:
    assert [handle.once("tick", 30) for _ in range(3)] == [True, False, False]


def test_what_has_expired_leaves_nothing_behind() -> None:
    clock = Clock()
    keeper = Keeper(clock=clock)
    keeper.submit(Acquire("x", "t", 1.0), "a", lambda _: None)
    clock.now = 2.0
    keeper.sweep()
    leases = keeper.state.leases
    assert [leases._by_name, leases._by_holder, leases._by_caller] == [{}, {}, {}]


def test_nobody_passes_by_whoever_waits_for_a_place_that_is_over_but_not_swept() -> None:
    clock, got = Clock(), list[str]()
    keeper = Keeper(clock=clock)
    keeper.submit(Acquire("x", "t1", 1.0), "a", lambda _: None)
    keeper.submit(Acquire("x", "t2", 1.0, 1, 60.0), "b", lambda _: got.append("b"))
    clock.now = 2.0
    replies: list[object] = []
    keeper.submit(Acquire("x", "t3", 1.0), "c", replies.append)
    assert got == ["b"]
    assert isinstance(replies[0], StashReply)
    assert not replies[0].is_true


@pytest.mark.parametrize("steps", range(4))
async def test_a_cancelled_wait_leaves_nothing_behind(keeper: Keeper, async_handle: AsyncStash, steps: int) -> None:
    async with async_handle.lock("job"):
        waiting = asyncio.create_task(async_handle.lock("job").acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert keeper.waiting == 0
    assert (await async_handle.lease_info("job"))["holders"] == []


async def test_a_lost_lease_cancels_its_block(keeper: Keeper, async_handle: AsyncStash) -> None:
    sweeper = Sweeper(keeper)
    sweeper.start()
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(LeaseLost):
        async with async_handle.lease("job", 0.05, renew=False, cancel_on_lost=True):
            await asyncio.sleep(20)
    assert task.cancelling() == 0
    async with async_handle.lease("job", 0.15) as lease:
        await asyncio.sleep(0.5)
        assert not lease.is_lost
    sweeper.stop()


def test_the_half_for_threads_loads_no_asyncio() -> None:
    program = (
        "import sys; from dirtybus.stash import LocalPort, Stash; from dirtybus.stash.keeper import Keeper\n"
        "with Stash(LocalPort(Keeper())).lease('job'): pass\n"
        "print({'asyncio', 'logging', 'secrets'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "set()"
