"""``dirtybus reload``: what it says and how it ends, over a fake reload first, over a real one at the end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from click.testing import CliRunner, Result

from dirtybus.arbiter.arbiter import Arbiter
from dirtybus.cli.verbs import dirtybus as verbs
from dirtybus.client import DirtyClient
from dirtybus.errors import BootFailed, ConfigError, DirtyTimeoutError, Draining
from tests.arbiter.serving import BASIC, serving
from tests.cli.owners import dirtybus, owner_of

REPORT = {"step": "init", "app": "shop:Model", "duration_s": 1.2, "traceback": "Traceback…\nRuntimeError: no model"}


@pytest_asyncio.fixture
async def arbiter(tmp_path: Path) -> AsyncIterator[Arbiter]:
    async with serving(BASIC, socket=str(tmp_path / "s")) as running:
        yield running


async def typed(arbiter: Arbiter, *words: str, error: Exception | None = None, for_ever: bool = False) -> Result:
    """Type ``dirtybus reload``; the instance's reload raises that error, or never ends."""

    async def reload() -> None:
        if for_ever:
            await asyncio.Event().wait()
        if error is not None:
            raise error

    arbiter.on_reload = reload
    line = ["reload", "--socket", str(arbiter.config.socket), *words]
    return await asyncio.to_thread(CliRunner().invoke, verbs, line)


async def test_it_ends_with_0_when_the_new_workers_serve(arbiter: Arbiter) -> None:
    ended = await typed(arbiter)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr.startswith("reloaded after ")


async def test_with_json_it_writes_one_document(arbiter: Arbiter) -> None:
    told = json.loads((await typed(arbiter, "--json")).stdout)
    assert (told["reloaded"], told["socket"]) == (True, arbiter.config.socket)


async def test_a_failed_boot_ends_with_1_and_the_report_in_plain_words(arbiter: Arbiter) -> None:
    text = "worker 3 could not start: init of shop:Model failed after 1.2 s: RuntimeError: no model"
    ended = await typed(arbiter, error=BootFailed(text, REPORT))
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == f"dirtybus: {text}\n  | Traceback…\n  | RuntimeError: no model\n"
    told = json.loads((await typed(arbiter, "--json", error=BootFailed(text, REPORT))).stderr)
    assert (told["exit"], told["error"]["code"], told["error"]["details"]["step"]) == (1, "boot_failed", "init")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("workers: 'many' is not a whole number"), 1),
        (DirtyTimeoutError("the new workers took too long", 5.0, phase="boot"), 1),
        (Draining("shutting down"), 75),
    ],
    ids=["settings", "boot timeout", "draining"],
)
async def test_the_exit_code_says_whether_to_try_again(error: Exception, code: int, arbiter: Arbiter) -> None:
    ended = await typed(arbiter, error=error)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert str(error) in ended.stderr


async def test_who_does_not_wait_longer_gets_124_and_it_goes_on(arbiter: Arbiter) -> None:
    ended = await typed(arbiter, "--timeout", "100ms", for_ever=True)
    assert ended.exit_code == 124
    assert "still reloads after 0.1 s; it goes on by itself" in ended.stderr


def test_where_nothing_runs_it_ends_with_69(tmp_path: Path) -> None:
    assert CliRunner().invoke(verbs, ["reload", "--socket", str(tmp_path / "s")]).exit_code == 69


# --- a real one ---

KIOSK = """
from dirtybus import DirtyApp

class Kiosk(DirtyApp):
    def init(self):
        {init}

    def sell(self):
        return {goods!r}
"""


async def test_a_real_reload_brings_new_code_and_settings_and_a_broken_one_nothing(tmp_path: Path) -> None:
    def put(init: str = "pass", goods: str = "", settings: str = "") -> None:
        (tmp_path / "kiosk_of_a_reload.py").write_text(KIOSK.format(init=init, goods=goods))
        (tmp_path / "settings.toml").write_text(f'apps = ["kiosk_of_a_reload:Kiosk"]\n{settings}')

    def reload() -> Any:
        return dirtybus("reload", "--socket", str(tmp_path / "owner.sock"))

    def sold(client: DirtyClient) -> object:
        return client.execute("kiosk_of_a_reload:Kiosk", "sell")

    put(goods="a paper")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    env = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    running = owner_of("--config", str(tmp_path / "settings.toml"), at=tmp_path, env=env)
    with running as owner, DirtyClient(owner.socket) as client:
        assert await asyncio.to_thread(sold, client) == "a paper"
        put(goods="a book")
        ended = await asyncio.to_thread(reload)
        assert ended.returncode == 0, ended.stderr
        assert await asyncio.to_thread(sold, client) == "a book"

        put(init="raise RuntimeError('no stock')", goods="air")
        ended = await asyncio.to_thread(reload)
        assert ended.returncode == 1
        assert "RuntimeError: no stock" in ended.stderr
        assert await asyncio.to_thread(sold, client) == "a book"

        put(goods="a map", settings="workers = 'many'\n")
        ended = await asyncio.to_thread(reload)
        assert ended.returncode == 1
        assert "'many'" in ended.stderr
        assert await asyncio.to_thread(sold, client) == "a book"
