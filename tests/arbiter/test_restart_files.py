"""restart.txt and always_restart.txt: touched, deleted, looked at seldom, and never a worker with old code after it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from loguru import logger

from dirtybus.arbiter.arbiter import Arbiter
from tests.apps.versioned import source
from tests.arbiter.serving import serving, until

APP = "restarted_app:Versioned"


def write(tmp_path: Path, version: str, init: str = "pass") -> None:
    (tmp_path / "restarted_app.py").write_text(source(version, init))


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    return {"pythonpath": [str(tmp_path)], "env": env, "restart_dirs": [str(tmp_path)], "restart_look": 0, **more}


async def version(arbiter: Arbiter) -> str:
    return str(await arbiter.call(APP, "version"))


async def versions_until(arbiter: Arbiter, wanted: str) -> None:
    async with asyncio.timeout(20):
        while await version(arbiter) != wanted:
            await asyncio.sleep(0.005)


async def test_touching_the_file_brings_new_code_and_deleting_it_nothing(tmp_path: Path) -> None:
    write(tmp_path, "one")
    file = tmp_path / "restart.txt"
    file.touch()  # it is there already: that asks for nothing
    async with serving(APP, **settings(tmp_path)) as arbiter:
        first = arbiter.status()["workers"][0]["worker"]
        assert [await version(arbiter) for _ in range(20)] == ["one"] * 20
        assert arbiter.status()["workers"][0]["worker"] == first
        write(tmp_path, "two")
        os.utime(file, (1, 1))
        await versions_until(arbiter, "two")
        await until(lambda: len(arbiter.status()["workers"]) == 1)
        second = arbiter.status()["workers"][0]["worker"]
        file.unlink()
        assert [await version(arbiter) for _ in range(20)] == ["two"] * 20
        assert arbiter.status()["workers"][0]["worker"] == second
        write(tmp_path, "three")
        file.touch()  # made anew
        await versions_until(arbiter, "three")


async def test_a_worker_that_boots_at_that_moment_is_not_attached_with_old_code(tmp_path: Path) -> None:
    write(tmp_path, "one", init="time.sleep(0.3)")
    more = {"pool_size": "1-3", "scale_up_after": 0, "max_idle_time": 0}
    async with serving(APP, **settings(tmp_path, **more)) as arbiter:
        calls = [asyncio.create_task(version(arbiter)) for _ in range(30)]
        await until(lambda: any(worker["state"] == "booting" for worker in arbiter.status()["workers"]))
        write(tmp_path, "two")
        (tmp_path / "restart.txt").touch()
        await asyncio.gather(*calls)
        await versions_until(arbiter, "two")
        await until(lambda: arbiter._restarts._looking is None)
        assert {await version(arbiter) for _ in range(30)} == {"two"}


async def test_always_restart_reloads_at_each_look_as_long_as_it_is_there(tmp_path: Path) -> None:
    write(tmp_path, "one")
    always = tmp_path / "always_restart.txt"
    async with serving(APP, **settings(tmp_path)) as arbiter:
        always.touch()
        for wanted in ("two", "three"):
            write(tmp_path, wanted)
            await versions_until(arbiter, wanted)
        always.unlink()
        await until(lambda: arbiter._restarts._looking is None)
        await version(arbiter)
        await until(lambda: arbiter._restarts._looking is None and len(arbiter.status()["workers"]) == 1)
        last = arbiter.status()["workers"][0]["worker"]
        for _ in range(5):
            await version(arbiter)
        assert arbiter.status()["workers"][0]["worker"] == last


async def test_it_looks_no_more_often_than_it_is_told_and_not_without_calls(tmp_path: Path) -> None:
    write(tmp_path, "one")
    async with serving(APP, **settings(tmp_path, restart_look="1h")) as arbiter:
        await version(arbiter)
        await until(lambda: arbiter._restarts._looking is None)
        (tmp_path / "restart.txt").touch()
        for _ in range(20):
            assert await version(arbiter) == "one"
        assert arbiter._restarts._looking is None


async def test_code_that_cannot_boot_is_reported_and_the_old_serves_on(tmp_path: Path) -> None:
    write(tmp_path, "one")
    lines: list[str] = []
    handler = logger.add(lines.append, level="ERROR")
    async with serving(APP, **settings(tmp_path)) as arbiter:
        write(tmp_path, "two", init="raise OSError('no model')")
        (tmp_path / "restart.txt").touch()
        await version(arbiter)
        await until(lambda: any("the reload failed" in line and "no model" in line for line in lines))
        assert await version(arbiter) == "one"
    logger.remove(handler)
