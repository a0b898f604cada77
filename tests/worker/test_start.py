from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dirtybus.errors import ConfigError, DirtyError
from tests.arbiter.serving import serving, until

SMALL = "tests.apps.small:Small"
ODD = "tests.apps.odd:Odd"

#: what a worker may load for an app that needs nothing: msgspec brings most of it
OF_THIRD_PARTIES = {"msgspec", "typing_extensions", "_distutils_hack", "sitecustomize", "usercustomize"}
TOO_HEAVY = {
    "asyncio", "concurrent", "multiprocessing", "subprocess", "logging", "json", "email", "http", "ssl", "random",
    "tempfile", "shutil", "pickle", "urllib", "xml", "numpy", "loguru", "graia", "launart", "creart", "click", "rich",
}  # fmt: skip
OURS = {"app", "batch", "errors", "protocol", "shared_memory", "stash", "transport", "version", "worker"}


@pytest.mark.parametrize("arguments", [[], ["3"], ["a", "b", "c", "d"]])
def test_typed_by_a_person_it_says_what_to_type_instead(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "dirtybus.worker", *arguments], capture_output=True, timeout=30)
    assert done.returncode == 2
    assert b"dirtybus run" in done.stderr
    assert b"Traceback" not in done.stderr


async def test_a_worker_loads_the_app_and_almost_nothing_else() -> None:
    async with serving(SMALL) as arbiter:
        loaded = set(await arbiter.call(SMALL, "modules"))
    tops = {name.partition(".")[0] for name in loaded}
    assert tops & TOO_HEAVY == set()
    strangers = tops - set(sys.stdlib_module_names) - OF_THIRD_PARTIES - {"dirtybus", "tests", "__main__"}
    assert {name for name in strangers if not name.startswith("__editable__")} == set()
    assert {name.split(".")[1] for name in loaded if name.startswith("dirtybus.")} <= OURS


async def test_files_in_the_working_directory_do_not_pass_for_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "struct", "enum", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    here = os.getcwd()
    monkeypatch.chdir(tmp_path)
    async with serving(SMALL, pythonpath=(here,)) as arbiter:
        assert "struct" in await arbiter.call(SMALL, "modules")


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ("def threads(self): ...", ConfigError, "class attribute threads"),
        ("workers = object()", ConfigError, "class attribute workers"),
        ("stashes = 5", DirtyError, "inspect of odd_class:App"),
    ],
)
async def test_class_attributes_that_are_no_settings_are_named(
    line: str, error: type[DirtyError], text: str, tmp_path: Path
) -> None:
    (tmp_path / "odd_class.py").write_text(f"from dirtybus import DirtyApp\n\n\nclass App(DirtyApp):\n    {line}\n")
    with pytest.raises(error, match=text):
        async with serving("odd_class:App", pythonpath=(str(tmp_path),)):
            pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_to_the_group_does_not_stop_a_worker_even_while_it_starts(number: signal.Signals) -> None:
    async with serving(ODD, workers=2, restart_delay=0) as arbiter:
        pids = {worker["pid"] for worker in arbiter.status()["workers"]}
        for pid in pids:
            os.kill(pid, number)
        busy = asyncio.create_task(arbiter.call(ODD, "echo", "whole"))
        for pid in pids:
            os.kill(pid, number)
        assert await busy == "whole"
        # one that is just being born
        victim = pids.pop()
        os.kill(victim, signal.SIGKILL)
        newborn = await until(
            lambda: next((w["pid"] for w in arbiter.status()["workers"] if w["pid"] not in {*pids, victim, 0}), None)
        )
        hit = 0
        while not any(w["pid"] == newborn and w["state"] == "idle" for w in arbiter.status()["workers"]):
            os.kill(newborn, number)
            hit += 1
            await asyncio.sleep(0.002)
        assert hit > 0
        assert {w["pid"] for w in arbiter.status()["workers"]} == {*pids, newborn}
