"""Leases between real processes: who dies gives back at once, and who stands still loses what it held."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dirtybus.client import DirtyClient
from dirtybus.errors import DirtyError, LeaseHeld
from tests.arbiter.serving import serving, until

ROOT = Path(__file__).parents[2]
LEASING = "tests.apps.leasing:Leasing"
HOLDER = """
import sys, time
from dirtybus.client import DirtyClient
from dirtybus.errors import LeaseLost
client = DirtyClient(sys.argv[1])
try:
    with client.stash.lock("job", float(sys.argv[2])) as lease:
        print(lease.fencing, flush=True)
        while True:
            lease.check()
            time.sleep(0.01)
except LeaseLost:
    print("lost", flush=True)
"""


async def _held(path: str, ttl_s: float) -> tuple[asyncio.subprocess.Process, int]:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, path, str(ttl_s), stdout=subprocess.PIPE, cwd=ROOT
    )
    assert holder.stdout is not None
    return holder, int(await asyncio.wait_for(holder.stdout.readline(), 20))


async def test_a_client_that_is_killed_gives_its_lock_to_who_waits_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(socket=path, workers=1), DirtyClient(path) as client:
        holder, fencing = await _held(path, 600)
        with pytest.raises(LeaseHeld):
            await client.stash_async.lease("job").acquire()
        waiting = asyncio.create_task(client.stash_async.lock("job").acquire())
        began_at = time.monotonic()
        os.kill(holder.pid, signal.SIGKILL)
        await holder.wait()
        lease = await asyncio.wait_for(waiting, 20)
        assert time.monotonic() - began_at < 20
        assert lease.fencing > fencing
        assert await lease.release()


async def test_a_client_that_stands_still_loses_its_lock_and_finds_out(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(socket=path, workers=1), DirtyClient(path) as client:
        holder, fencing = await _held(path, 0.5)
        os.kill(holder.pid, signal.SIGSTOP)
        async with client.stash_async.lock("job", wait=20) as lease:
            assert lease.fencing > fencing
            os.kill(holder.pid, signal.SIGCONT)
            assert holder.stdout is not None
            assert await asyncio.wait_for(holder.stdout.readline(), 20) == b"lost\n"
            await asyncio.wait_for(holder.wait(), 20)


WAYS = [("hold", 1), ("hold", 2), ("ahold", 1)]


@asynccontextmanager
async def _worker_that_holds(
    directory: Path, way: str, threads: int, ttl_s: float
) -> AsyncIterator[tuple[DirtyClient, asyncio.Task[Any], int, int]]:
    """Yield a client, the call that holds the lock, its worker and its fencing number."""
    path, said = str(directory / "s"), directory / "said"
    async with serving(LEASING, socket=path, workers=1, threads=threads), DirtyClient(path) as client:
        call = asyncio.create_task(client.execute_async(LEASING, way, "job", ttl_s, str(said)))
        await until(said.exists)
        pid, fencing = map(int, said.read_text().split())
        try:
            yield client, call, pid, fencing
        finally:
            call.cancel()
            await asyncio.wait([call])


@pytest.mark.parametrize(("way", "threads"), WAYS)
async def test_a_worker_that_is_killed_gives_its_lock_to_who_waits_at_once(
    tmp_path: Path, way: str, threads: int
) -> None:
    async with _worker_that_holds(tmp_path, way, threads, 600) as (client, call, pid, fencing):
        with pytest.raises(LeaseHeld):
            await client.stash_async.lease("job").acquire()
        waiting = asyncio.create_task(client.stash_async.lock("job").acquire())
        os.kill(pid, signal.SIGKILL)
        lease = await asyncio.wait_for(waiting, 20)
        assert lease.fencing > fencing
        assert await lease.release()
        await asyncio.wait([call])
        assert isinstance(call.exception(), DirtyError)


@pytest.mark.parametrize(("way", "threads"), WAYS)
async def test_a_worker_that_stands_still_loses_its_lock_and_finds_out(tmp_path: Path, way: str, threads: int) -> None:
    async with _worker_that_holds(tmp_path, way, threads, 0.5) as (client, call, pid, fencing):
        os.kill(pid, signal.SIGSTOP)
        try:
            async with client.stash_async.lock("job", wait=20) as lease:
                assert lease.fencing > fencing
                os.kill(pid, signal.SIGCONT)
                assert f"(fencing number {fencing}) is lost" in await asyncio.wait_for(call, 20)
        finally:
            os.kill(pid, signal.SIGCONT)


JOB = """
import sys, time
from dirtybus.client import DirtyClient
from dirtybus.errors import LeaseLost
path, ttl_s, job_s, renews = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "renews"
with DirtyClient(path) as client:
    client.connect()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with client.stash.lease("job", ttl_s, wait=60, renew=renews):
            began_at = time.monotonic()
            time.sleep(job_s)
            print(began_at, time.monotonic(), flush=True)
    except LeaseLost:
        pass
"""


async def _two_at_once(path: str, ttl_s: float, job_s: float, how: str) -> bool:
    """Let two processes do a job under one lease; return whether both were at it at the same time."""
    command = (sys.executable, "-c", JOB, path, str(ttl_s), str(job_s), how)
    pipe = subprocess.PIPE
    both = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT) for _ in range(2)]
    for one in both:
        assert one.stdout is not None
        assert await asyncio.wait_for(one.stdout.readline(), 20) == b"ready\n"
    said = await asyncio.wait_for(asyncio.gather(*(one.communicate(b"go\n") for one in both)), 60)
    first, second = sorted([float(moment) for moment in out.split()] for out, _ in said)
    return second[0] < first[1]


@pytest.mark.parametrize(("ttl_s", "job_s"), [(0.5, 0.7), pytest.param(5.0, 6.0, marks=pytest.mark.slow)])
async def test_a_job_that_takes_longer_than_its_lease_is_done_once_at_a_time_if_it_renews(
    tmp_path: Path, ttl_s: float, job_s: float
) -> None:
    path = str(tmp_path / "s")
    async with serving(socket=path, workers=1):
        assert await _two_at_once(path, ttl_s, job_s, "lets it run out"), "the test would not see the fault"
        assert not await _two_at_once(path, ttl_s, job_s, "renews")


def test_a_forked_child_renews_and_releases_nothing(tmp_path: Path) -> None:
    script = """
import os, sys, threading
from dirtybus.stash import LocalPort, Stash
from dirtybus.stash.keeper import Keeper
from dirtybus.errors import LeaseLost
asked = []
class Port(LocalPort):
    def ask(self, op):
        asked.append((os.getpid(), type(op).__name__))
        return super().ask(op)
lease = Stash(Port(Keeper())).lease("job", 0.3)
with lease:
    child = os.fork()
    if child == 0:
        from dirtybus.stash import watchdog
        del asked[:]
        alone = threading.active_count() == 1 and not watchdog._here._watches
        try:
            lease.check()
        except LeaseLost as exc:
            alone = alone and "forked" in str(exc)
        else:
            alone = False
        os._exit(0 if alone and not lease.release() and not asked else 1)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
    lease.check()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=30, cwd=ROOT, check=True
    )
    assert done.stdout == "0\n"


@pytest.mark.parametrize("is_sync", [True, False])
async def test_a_lease_outlives_its_owner_if_the_stash_is_persisted(tmp_path: Path, is_sync: bool) -> None:
    path, settings = str(tmp_path / "s"), {"persist": tmp_path / "stash.db"}
    client, other = DirtyClient(path, reconnect_s=30), DirtyClient(path)
    sync_lease, lease = client.stash.lock("job", 3), client.stash_async.lock("job", 3)
    async with serving(socket=path, workers=1, stash=settings):
        await (asyncio.to_thread(sync_lease.acquire) if is_sync else lease.acquire())
        fencing = sync_lease.fencing if is_sync else lease.fencing
    async with serving(socket=path, workers=1, stash=settings):
        with pytest.raises(LeaseHeld):
            await asyncio.to_thread(other.stash.lease("job").acquire)
        await (asyncio.to_thread(sync_lease.renew) if is_sync else lease.renew())
        info = await other.stash_async.lease_info("job")
        assert [one["fencing"] for one in info["holders"]] == [fencing]
        assert await (asyncio.to_thread(sync_lease.release) if is_sync else lease.release())
        for one in (client, other):
            await one.close_async()
            one.close()


async def test_a_client_that_the_owner_hangs_up_on_keeps_what_is_persisted(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(socket=path, workers=1, stash={"persist": tmp_path / "stash.db"}) as arbiter:
        client, leases = DirtyClient(path), arbiter.stash.state.leases
        lease = client.stash_async.lease("job", 60, renew=False)
        await lease.acquire()
        assert arbiter._door is not None
        arbiter._door.close()  # as at its end, but here the stash lives on
        await until(lambda: list(leases._by_caller) == [None])
        assert leases._by_holder.keys() == {("job", lease.token)}
        await client.close_async()
