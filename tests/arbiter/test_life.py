from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.config import DirtyConfig
from dirtybus.errors import BootFailed, ConfigError, DirtyError, WorkerLost
from dirtybus.events import ArbiterStarting, WorkerExited
from tests.arbiter.serving import BASIC, Diary, serving, until

JOURNAL = "tests.apps.basic:Journal"
SECOND = "tests.apps.basic:Second"


async def failed_start(*apps: str, **settings: object) -> DirtyError:
    arbiter = Arbiter(DirtyConfig.of(*apps, **settings))
    try:
        with pytest.raises(DirtyError) as caught:
            await arbiter.start()
    finally:
        await arbiter.close()
    return caught.value


async def test_the_order_of_initialisation_is_the_seeds(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    told: list[str] = []
    hooks = {
        "on_dirty_starting": lambda arbiter: told.append(f"starting {type(arbiter).__name__}"),
        "dirty_post_fork": "tests.apps.basic:post_fork",
        "dirty_worker_init": "tests.apps.basic:worker_init",
        "dirty_worker_exit": lambda _, worker: told.append(f"exit {worker.exit_code} {worker.signal}"),
    }
    async with serving(JOURNAL, SECOND, env={"JOURNAL": str(journal)}, hooks=hooks) as arbiter:
        assert told == ["starting Arbiter"]
        await arbiter.call(JOURNAL, "work")
        await arbiter.drain(10)
    assert journal.read_text().splitlines() == [
        "post_fork True True",
        "Journal made",
        "Second made",
        "Journal init",
        "Second init",
        f"worker_init {JOURNAL},{SECOND}",
        "Journal worked",
        "Second close",
        "Journal close",
    ]
    assert told == ["starting Arbiter", "exit 0 None"]


async def test_close_runs_after_the_last_call(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with serving(JOURNAL, env={"JOURNAL": str(journal)}) as arbiter:
        call = asyncio.create_task(arbiter.call(JOURNAL, "work", 0.3))
        await until(lambda: arbiter.ledger.open)
        assert await arbiter.drain(10)
        assert await call == "worked"
    assert journal.read_text().splitlines()[-2:] == ["Journal worked", "Journal close"]


async def test_the_owner_imports_no_user_code() -> None:
    import sys

    loaded = "tests.apps.basic" in sys.modules
    async with serving() as arbiter:
        await arbiter.call(BASIC, "echo")
        assert ("tests.apps.basic" in sys.modules) == loaded


async def test_a_worker_loads_little_of_ours() -> None:
    async with serving() as arbiter:
        names = ("graia", "launart", "loguru", "dirtybus.pool", "dirtybus.arbiter", "dirtybus.client", "numpy")
        assert await arbiter.call(BASIC, "loaded", *names) == []


@pytest.mark.parametrize(
    ("app", "step", "text"),
    [
        ("tests.apps.broken:FailsInit", "init", "no model here"),
        ("tests.apps.broken:FailsToBeMade", "__init__", "no disk"),
        ("tests.apps.broken:NoSuchClass", "import", "has no 'NoSuchClass'"),
        ("tests.apps.no_such_module:App", "import", "no module 'tests.apps.no_such_module'"),
        ("tests.apps.broken:NoApp", "import", "has no init, __call__, close"),
        ("tests.apps.broken:not_a_class", "import", "not a class"),
    ],
)
async def test_a_start_that_fails_says_at_which_step_and_why(app: str, step: str, text: str) -> None:
    error = await failed_start(app)
    assert isinstance(error, BootFailed)
    assert (error.details["step"], error.details["app"]) == (step, app)
    assert text in str(error)
    if step != "import":
        assert "Traceback" in error.details["traceback"]


async def test_a_worker_that_dies_while_it_boots_shows_its_last_words() -> None:
    error = await failed_start("tests.apps.broken:DiesInInit")
    assert isinstance(error, BootFailed)
    assert error.details["exit_code"] == 5
    assert "last words" in str(error)


async def test_an_init_that_hangs_is_killed_at_boot_timeout() -> None:
    error = await failed_start("tests.apps.broken:Hangs", boot_timeout="1s")
    assert "boot_timeout" in str(error)


@pytest.mark.parametrize(
    ("apps", "settings", "text"),
    [
        ((f"{BASIC}:4",), {"workers": 2}, "4 workers"),
        (("tests.apps.broken:TooMany",), {"workers": 2}, "5 workers"),
        (("tests.apps.broken:WrongCount",), {}, "class attribute workers"),
    ],
)
async def test_what_can_never_be_satisfied_is_a_config_error_that_names_the_app(
    apps: tuple[str, ...], settings: dict[str, object], text: str
) -> None:
    if apps[0].count(":") == 2:
        with pytest.raises(ConfigError, match=text) as caught:
            DirtyConfig.of(*apps, **settings)
        error: DirtyError = caught.value
    else:
        error = await failed_start(*apps, **settings)
    assert isinstance(error, ConfigError)
    assert text in str(error)
    assert apps[0].split(":")[1] in str(error)


async def test_a_limit_in_the_spec_beats_the_class() -> None:
    async with serving("tests.apps.basic:Other:2", workers=3) as arbiter:
        assert len(arbiter.status()["workers"]) == 2


async def test_a_later_boot_that_fails_is_retried_and_calls_wait(tmp_path: Path) -> None:
    mark = tmp_path / "booted"
    app = "tests.apps.broken:FailsSecondTime"
    diary = Diary()
    async with serving(app, env={"BOOT_MARK": str(mark)}, restart_delay="50ms", observer=diary) as arbiter:
        assert isinstance(diary.events[0], ArbiterStarting)
        with pytest.raises(WorkerLost):
            await arbiter.call(app, "die")
        waiting = asyncio.create_task(arbiter.call(app, "echo", "after all"))
        await until(lambda: len(diary.of(WorkerExited)) >= 3)
        mark.unlink()
        assert await waiting == "after all"


async def test_workers_get_one_compute_thread_unless_told_otherwise() -> None:
    os.environ.pop("OMP_NUM_THREADS", None)
    async with serving() as arbiter:
        assert await arbiter.call(BASIC, "environment", "OMP_NUM_THREADS") == "1"
    async with serving(env={"OMP_NUM_THREADS": "3"}) as arbiter:
        assert await arbiter.call(BASIC, "environment", "OMP_NUM_THREADS") == "3"
    async with serving(compute_threads=None) as arbiter:
        assert await arbiter.call(BASIC, "environment", "OMP_NUM_THREADS") is None


async def test_a_worker_inherits_its_own_descriptor_only() -> None:
    async with serving(workers=2, socket=None) as arbiter:
        for fds in [await arbiter.call(BASIC, "descriptors") for _ in range(2)]:
            sockets = [fd for fd in fds if fd.startswith("socket:")]
            assert len(sockets) == 2, "its link and its pulse"
            assert not [fd for fd in fds if "anon_inode" in fd or "/tests/" in fd]


async def test_resizing_goes_up_and_down_but_never_below_what_apps_need() -> None:
    async with serving(BASIC, "tests.apps.basic:Other:2", workers=2) as arbiter:
        assert arbiter.resize(4) == 4
        await until(lambda: sum(w["state"] == "idle" for w in arbiter.status()["workers"]) == 4)
        assert arbiter.resize(1) == 2
        await until(lambda: len(arbiter.status()["workers"]) == 2)
        assert await arbiter.call("tests.apps.basic:Other", "echo", 1) == 1


async def test_cancelling_the_start_leaves_no_worker() -> None:
    arbiter = Arbiter(DirtyConfig.of("tests.apps.broken:Hangs"))
    start = asyncio.create_task(arbiter.start())
    await until(lambda: any(worker["pid"] for worker in arbiter.status()["workers"]))
    start.cancel()
    await asyncio.wait([start])
    await arbiter.close()
    assert arbiter.status()["workers"] == [] or all(not w["pid"] for w in arbiter.status()["workers"])
