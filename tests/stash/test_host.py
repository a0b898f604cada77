"""A keeper on its file: who waits for the disk, and what is there after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dirtybus.client import DirtyClient
from dirtybus.config import StashConfig
from dirtybus.errors import StashError
from dirtybus.shared_memory import THRESHOLD_BYTES
from tests.arbiter.serving import BASIC, serving
from tests.stash.hosting import hosted

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.sqlite")


async def test_everything_is_there_again(path: str) -> None:
    large = bytes(THRESHOLD_BYTES + 7)
    async with hosted(path) as before:
        stash = before.aio
        await stash.put("t", ("k", 1), {"x": {1, 2}}, expires_in=500)
        await stash.push("t", "l", 1, 2, 3)
        await stash.pop_left("t", "l")
        await stash.add("t", "s", "a", "b")
        await stash.remove("t", "s", "a")
        await stash.put("t", "large", large)
        await stash.ensure("ruled", max_entries=3, on_full="lru")
        version = await stash.put("ruled", "k", 1)
        await stash.put("gone", "k", 1)
        await stash.delete_table("gone")
        assert await stash.once("tick", 60)
        lease = stash.lease("job", ttl=60, renew=False)
        await lease.acquire()
        fencing, token = lease.fencing, lease.token
    async with hosted(path) as after:
        stash = after.aio
        assert await stash.get("t", ("k", 1)) == {"x": {1, 2}}
        assert 400 < (await stash.ttl("t", ("k", 1)) or 0) <= 500
        assert (await stash.get("t", "l"), await stash.get("t", "s")) == ([2, 3], {"b"})
        assert await stash.get("t", "large") == large
        assert (await stash.info("ruled"))["max_entries"] == 3
        assert await stash.get_with_version("ruled", "k") == (1, version)
        assert await stash.put("ruled", "k", 2) > version
        assert "gone" not in await stash.tables()
        assert not await stash.once("tick", 60)
        (holder,) = (await stash.lease_info("job"))["holders"]
        assert holder["fencing"] == fencing
        assert token


async def test_plain_code_in_the_loop_is_told_to_await(path: str) -> None:
    async with hosted(path, durability="sync") as here:
        with pytest.raises(StashError, match=r"await it, with stash\.aio"):
            here.blocking.put("t", "k", 1)
        assert here.blocking.get("t", "k", "unchanged") == "unchanged"
        await asyncio.to_thread(here.blocking.put, "t", "k", 1)
        assert here.blocking.get("t", "k") == 1


async def test_workers_and_clients_write_what_is_kept(tmp_path: Path, path: str) -> None:
    settings: dict[str, Any] = {"stash": StashConfig(persist=path, durability="sync"), "socket": str(tmp_path / "s")}
    async with serving(BASIC, **settings) as arbiter:
        await arbiter.call(BASIC, "put", "worker", 1)
        await arbiter.call(BASIC, "aput", "task", 2)
        async with DirtyClient(settings["socket"]) as client:
            await client.stash_async.put("basic", "client", 3)
        commits = arbiter.stash.summary()["store"]
        assert commits["commits"] >= 3  # type: ignore[index]
    async with serving(BASIC, **settings) as arbiter, DirtyClient(settings["socket"]) as client:
        found = await client.stash_async.get_many("basic", ["worker", "task", "client"])
    assert found == {"worker": 1, "task": 2, "client": 3}
