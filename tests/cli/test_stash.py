"""``dirtybus stash`` against a real owner that keeps its stash in a file, over an end and a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from select import select

import pytest
from click.testing import CliRunner, Result

from dirtybus.cli.verbs import dirtybus
from tests.cli.owners import ROOT, SHOP, WITHIN_S, owner_of

pytestmark = pytest.mark.timeout(120)


class Typist:
    """Types verbs for one owner."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def __call__(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(dirtybus, ["stash", *words, "--socket", self._socket], input=stdin)

    def out(self, *words: str, stdin: str | None = None) -> str:
        ended = self(*words, stdin=stdin)
        assert ended.exit_code == 0, ended.stderr
        return ended.stdout


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "dirtybus.toml"
    file.write_text(
        f'[stash]\npersist = "{tmp_path}/state.sqlite"\n'
        '[stash.tables.orders]\ndurability = "sync"\n[stash.tables.cache]\nmax_entries = 2\non_full = "lru"\n'
    )
    return {"DIRTYBUS_CONFIG": str(file)}


def test_tables_are_looked_into_and_changed(tmp_path: Path, settings: dict[str, str]) -> None:
    with owner_of(SHOP, at=tmp_path, env=settings) as owner:
        stash = Typist(owner.socket)
        assert stash.out("put", "cache", "a", "1").startswith("version ")
        stash.out("put", "cache", "b", '{"x": [1, 2]}', "--expires-in", "1h")
        stash.out("put", "cache", "5", "true")
        assert stash.out("keys", "cache") == "b\n5\n"
        assert stash.out("keys", "cache", "--pattern", "b*", "--json") == '"b"\n'
        assert json.loads(stash.out("get", "cache", "b", "--json")) == {"x": [1, 2]}
        assert stash.out("get", "cache", "5") == "True\n"
        assert stash("get", "cache", '"5"').exit_code == 1  # the text is another key
        assert stash("keys", "missing").exit_code == 1
        header, cache = stash.out("tables").splitlines()
        assert header.startswith("#name\tsize\t")
        assert cache.split("\t")[:2] == ["cache", "2"]
        (told,) = json.loads(stash.out("tables", "--json"))
        assert (told["evicted"], told["max_entries"]) == (1, 2)
        exported = stash.out("export")
        assert stash("clear", "cache", stdin="n\n").exit_code == 1
        assert stash.out("clear", "cache", "--yes") == "2 entries removed\n"
        assert stash.out("import", "-", stdin=exported) == "2 entries stored\n"
        assert stash.out("delete", "cache", "b") == "deleted\n"
        assert stash("delete", "cache", "b").exit_code == 1
        refused = stash("import", "-", "--json", stdin="nonsense\n")
        assert refused.exit_code == 1
        assert "line 1" in json.loads(refused.stderr)["error"]["message"]
        wrong = stash("put", "cache", "k", "v", "--expires-in", "soon")
        assert wrong.exit_code == 1
        assert "expires_in" in wrong.stderr


def test_watch_writes_changes_as_they_happen(tmp_path: Path) -> None:
    with owner_of(SHOP, at=tmp_path) as owner:
        command = [sys.executable, "-m", "dirtybus", "stash", "watch", "t", "--json", "--socket", owner.socket]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as watching:
            assert watching.stdout is not None
            stash = Typist(owner.socket)
            heard = b""
            while not heard:  # it begins when it begins
                stash.out("put", "t", "k", "1")
                if select([watching.stdout], [], [], 0.2)[0]:
                    heard = watching.stdout.readline()
            told = json.loads(heard)
            assert (told["kind"], told["key"]) == ("put", "k")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(WITHIN_S) == 130


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_is_kept_outlives_its_owner(tmp_path: Path, settings: dict[str, str], end: signal.Signals) -> None:
    with owner_of(SHOP, at=tmp_path, env=settings) as owner:
        stash = Typist(owner.socket)
        stash.out("put", "orders", "1", "tea")
        stash.out("put", "orders", "2", "cake", "--expires-in", "1h")
        if end == signal.SIGTERM:
            stash.out("put", "notes", "n", "async")
            owner.send(signal.SIGHUP)  # a reload keeps the tables, and the file open
            stash.out("put", "orders", "3", "milk")
        owner.send(end)
        owner.ended()
    os.unlink(tmp_path / "owner.sock") if (tmp_path / "owner.sock").exists() else None
    with owner_of(SHOP, at=tmp_path, env=settings) as owner:
        stash = Typist(owner.socket)
        assert stash.out("get", "orders", "1") == "tea\n"
        assert stash.out("get", "orders", "2") == "cake\n"
        if end == signal.SIGTERM:
            assert stash.out("get", "notes", "n") == "async\n"
            assert stash.out("get", "orders", "3") == "milk\n"


def test_a_second_owner_of_a_file_says_so_and_how_to_help_it(tmp_path: Path, settings: dict[str, str]) -> None:
    with owner_of(SHOP, at=tmp_path, env=settings):
        second = subprocess.run(
            [sys.executable, "-m", "dirtybus", "run", SHOP, "--socket", str(tmp_path / "other.sock")],
            cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=WITHIN_S, check=False,
        )  # fmt: skip
        assert second.returncode != 0
        assert "in use by another owner" in second.stderr
