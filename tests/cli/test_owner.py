"""``dirtybus run`` as a process: how it starts, ends and is ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from dirtybus import DirtyClient, Draining
from dirtybus.errors import DirtyConnectionError, DirtyError
from tests.cli.owners import ROOT, SHOP, WITHIN_S, Owner, dirtybus, owner_of

#: how a container starts its program
AS_PID_1 = ("unshare", "--pid", "--fork", "--kill-child")


@asynccontextmanager
async def client_of(owner: Owner) -> AsyncIterator[DirtyClient]:
    client = DirtyClient(owner.socket)
    try:
        yield client
    finally:
        await client.close_async()
        client.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact that nobody tells us of; asked in a thread, so that it may wait, too."""
    async with asyncio.timeout(WITHIN_S):
        while not await asyncio.to_thread(is_so):
            await asyncio.sleep(0.01)


async def until_submitted(client: DirtyClient, count: int) -> None:
    """Wait until the arbiter has accepted so many calls."""
    await until(lambda: client.status()["ledger"]["submitted"] >= count)


def is_there(path: str) -> bool:
    return os.path.exists(path)


def has_idle_workers(client: DirtyClient, count: int) -> bool:
    return [each["state"] for each in client.status()["workers"]] == ["idle"] * count


def rests(client: DirtyClient, count: int, span_s: float) -> list[asyncio.Task[float]]:
    return [asyncio.create_task(client.execute_async(SHOP, "rest", span_s)) for _ in range(count)]


def test_it_says_ready_on_stderr_and_on_the_descriptor(tmp_path: Path) -> None:
    with owner_of(SHOP, "--name", "shop", at=tmp_path) as owner:
        assert f"ready: shop serves {SHOP} at {owner.socket} (pid {owner.process.pid})" in owner.log
        with DirtyClient(owner.socket) as client:
            assert client.execute(SHOP, "echo", 1) == [[1], {}]


def test_workers_do_not_inherit_the_descriptor(tmp_path: Path) -> None:
    # `owner_of` reads it to its end: a worker that held it open would keep that from coming
    with owner_of(SHOP, "--workers", "2", at=tmp_path):
        pass


def can_unshare() -> bool:
    program = shutil.which("unshare")
    return program is not None and subprocess.run([*AS_PID_1, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param((), id="ordinary"),
        pytest.param(AS_PID_1, id="pid 1", marks=pytest.mark.skipif("not can_unshare()", reason="needs namespaces")),
    ],
)
async def test_sigterm_lets_running_and_queued_calls_end_and_the_exit_code_is_0(
    prefix: tuple[str, ...], tmp_path: Path
) -> None:
    with owner_of(SHOP, "--workers", "2", "--threads", "10", at=tmp_path, prefix=prefix) as owner:
        async with client_of(owner) as client:
            calls = rests(client, 220, 0.1)
            await until_submitted(client, 220)
            owner.send(signal.SIGTERM)
            assert await asyncio.gather(*calls) == [0.1] * 220
        assert await asyncio.to_thread(owner.ended) == 0, owner.log
        assert not is_there(owner.socket)


async def test_apps_are_closed_on_the_way_out(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with owner_of("tests.cli.apps:Marked", at=tmp_path, env={"MARK_PATH": str(mark)}) as owner:
        owner.send(signal.SIGINT)
        assert await asyncio.to_thread(owner.ended) == 0
        assert mark.read_text() == "closed"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_second_signal_ends_it_within_a_second(signum: signal.Signals, code: int, tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        async with client_of(owner) as client:
            calls = rests(client, 1, 60.0)
            await until_submitted(client, 1)
            owner.send(signum)
            await until(lambda: "leaving" in owner.log)
            second_at = time.monotonic()
            owner.send(signum)
            assert await asyncio.to_thread(owner.ended) == code, owner.log
            assert time.monotonic() - second_at < 3.0  # 1 s, and what a busy machine adds
            with pytest.raises(DirtyError):
                await calls[0]


async def test_work_that_is_cut_gives_124(tmp_path: Path) -> None:
    with owner_of(SHOP, "--graceful-timeout", "200ms", at=tmp_path) as owner:
        async with client_of(owner) as client:
            calls = rests(client, 1, 60.0)
            await until_submitted(client, 1)
            owner.send(signal.SIGTERM)
            with pytest.raises((Draining, DirtyConnectionError)):
                await calls[0]
        assert await asyncio.to_thread(owner.ended) == 124, owner.log


async def test_stop_waits_until_the_calls_are_done_and_the_socket_is_gone(tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        async with client_of(owner) as client:
            calls = rests(client, 1, 0.5)
            await until_submitted(client, 1)
            ended = await asyncio.to_thread(dirtybus, "stop", "--json", "--socket", owner.socket)
            assert ended.returncode == 0, ended.stderr
            assert json.loads(ended.stdout)["stopped"] is True
            assert calls[0].done() or await calls[0] == 0.5
        assert not is_there(owner.socket)
        assert await asyncio.to_thread(owner.ended) == 0


async def test_stop_that_takes_too_long_gives_124_and_goes_on(tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        async with client_of(owner) as client:
            calls = rests(client, 1, 2.0)
            await until_submitted(client, 1)
            ended = await asyncio.to_thread(dirtybus, "stop", "--timeout", "100ms", "--socket", owner.socket)
            assert ended.returncode == 124, ended.stderr
            assert "it will end by itself" in ended.stderr
            assert await calls[0] == 2.0
        assert await asyncio.to_thread(owner.ended) == 0


async def test_scale_changes_the_number_of_workers(tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        async with client_of(owner) as client:
            for count in (3, 1):
                ended = await asyncio.to_thread(dirtybus, "scale", str(count), "--socket", owner.socket)
                assert ended.stdout == f"{count} workers\n", ended.stderr
                await until(partial(has_idle_workers, client, count))


@pytest.mark.parametrize(
    ("app", "code", "told"),
    [
        ("no_such_module:App", 1, "there is no module 'no_such_module'"),
        ("tests.cli.apps:Missing", 1, "has no 'Missing'"),
        ("tests.cli.apps:Broken", 1, "RuntimeError: the model is missing"),
        ("tests.cli.apps:Wide", 2, "wants 2 workers but the pool has 1"),
    ],
)
def test_an_app_that_cannot_be_served_is_named_without_a_traceback_of_ours(
    app: str, code: int, told: str, tmp_path: Path
) -> None:
    ended = dirtybus("run", app, "--socket", str(tmp_path / "s"))
    assert ended.returncode == code, ended.stderr
    last = ended.stderr[ended.stderr.rindex("\ndirtybus: ") + 1 :]
    assert told in last
    assert ended.stdout == ""
    # tracebacks of the worker are marked as quotations
    assert not re.search(r"^Traceback", ended.stderr, re.MULTILINE)


def test_an_app_that_hangs_in_its_init_ends_it_with_its_stack(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("boot_timeout = '2s'\n")
    ended = dirtybus("run", "tests.cli.apps:Hanging", "--socket", str(tmp_path / "s"), "--config", str(settings))
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr[ended.stderr.rindex("\ndirtybus: ") + 1 :]
    assert re.search(r"init of tests\.cli\.apps:Hanging failed after \d\.\d s: killed because .* boot_timeout", last)
    assert re.search(r"^  \| .*apps\.py\", line \d+ in init$", last, re.MULTILINE)


def test_a_socket_that_is_taken_ends_with_2(tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        ended = dirtybus("run", SHOP, "--socket", owner.socket)
    assert ended.returncode == 2, ended.stderr
    assert owner.socket in ended.stderr


def test_modules_are_found_from_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "kiosk.py").write_text(
        "from dirtybus import DirtyApp\nclass Kiosk(DirtyApp):\n    def sell(self):\n        return 'a paper'\n"
    )
    command = [str(Path(sys.executable).with_name("dirtybus")), "run", "kiosk:Kiosk", "--socket", str(tmp_path / "s")]
    if not os.path.exists(command[0]):
        pytest.skip("the script is not installed beside this Python")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any(line.startswith("ready: ") for line in process.stderr)
            with DirtyClient(str(tmp_path / "s")) as client:
                assert client.execute("kiosk:Kiosk", "sell") == "a paper"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0


def test_owner_and_verbs_meet_at_the_default_place(tmp_path: Path) -> None:
    env = {**os.environ, "DIRTYBUS_RUNTIME_DIR": str(tmp_path), "DIRTYBUS_NAME": "meeting"}
    env.pop("DIRTYBUS_SOCKET", None)
    command = ["run", SHOP, "--log-level", "warning"]
    with subprocess.Popen(
        [sys.executable, "-m", "dirtybus", *command], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("ready: meeting ")
            told = dirtybus("status", "--json", env={"DIRTYBUS_RUNTIME_DIR": str(tmp_path), "DIRTYBUS_NAME": "meeting"})
            assert json.loads(told.stdout)["pid"] == process.pid, told.stderr
        finally:
            process.terminate()
            process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
