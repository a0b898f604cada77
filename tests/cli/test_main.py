from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dirtybus import __version__, cli
from dirtybus.cli.exits import ExitCode
from dirtybus.cli.verbs import VERBS, dirtybus

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_package_s() -> None:
    assert CliRunner().invoke(dirtybus, ["--version"]).stdout == f"dirtybus {__version__}\n"


def test_help_lists_every_verb_in_the_order_of_use() -> None:
    told = CliRunner().invoke(dirtybus, ["--help"]).stdout
    places = [told.index(f"\n  {verb.name} ") for verb in VERBS]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_has_help(verb: str) -> None:
    ended = CliRunner().invoke(dirtybus, [verb, "--help"])
    assert ended.exit_code == 0
    assert ended.stdout.startswith(f"Usage: dirtybus {verb}")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_option_is_in_the_documentation(verb: click.Command) -> None:
    documented = (ROOT / "docs" / "cli.md").read_text()
    options = [flag for param in verb.params for flag in param.opts if flag.startswith("--")]
    assert [flag for flag in options if flag not in documented] == []


def test_every_exit_code_is_in_the_documentation() -> None:
    documented = re.findall(r"^\| ([\d, ]+) \|", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE)
    assert {int(code) for code in ", ".join(documented).split(", ")} == {*ExitCode, 143}


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"dirtybus: the command line needs {missing!r}, which is not installed. "
        "Install it with: pip install 'dirtybus[cli]'\n"
    )


def test_the_verbs_that_ask_load_neither_graia_nor_launart_nor_rich() -> None:
    code = (
        "import sys; from dirtybus.cli.verbs import dirtybus; "
        "loaded = {'graia', 'launart', 'loguru', 'rich'} & set(sys.modules); "
        "sys.exit(f'{loaded} was loaded' if loaded else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 0, ended.stderr
