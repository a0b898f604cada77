"""Leases between real processes: who dies gives back at once, and who stands still loses what it held."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dirtybus.client import DirtyClient
from dirtybus.errors import LeaseHeld
from tests.arbiter.serving import serving

ROOT = Path(__file__).parents[2]
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
