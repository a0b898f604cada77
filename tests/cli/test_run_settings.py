from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from dirtybus.cli.ready_mark import ReadyMark
from dirtybus.cli.run import run, settings_of
from dirtybus.errors import ConfigError


def test_options_beat_the_environment_and_that_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dirtybus.toml").write_text('apps = ["m:File"]\nworkers = 2\ntimeout = "5m"\nthreads = 2\nsocket = "/s"\n')
    environ = {"DIRTYBUS_WORKERS": "3", "DIRTYBUS_TIMEOUT": "60"}
    config = settings_of({"workers": "4"}, None, environ=environ)
    assert (config.workers, config.timeout_s, config.threads, config.socket) == (4, 60.0, 2, "/s")
    assert [spec.path for spec in config.apps] == ["m:File"]


def test_apps_on_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('apps = ["m:File"]\n')
    config = settings_of({"apps": ("m:Typed:2",), "workers": "2", "socket": "/s"}, file, environ={})
    assert [str(spec) for spec in config.apps] == ["m:Typed:2"]


def test_without_an_app_there_is_nothing_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no app to serve.*dirtybus run module:Class"):
        settings_of({}, None, environ={})


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["not an app"], "is not an import path"),
        (["m:C", "--workers", "many"], "'many' is not a whole number"),
        (["m:C", "--timeout", "soon"], "'soon' is not a span of time"),
        (["m:C:3", "--workers", "2"], "wants 3 workers but the pool has 2"),
        (["m:C", "--config", "missing.toml"], "cannot read the settings in missing.toml"),
        (["m:C", "--log-level", "loud"], "'loud' is not one of"),
    ],
)
def test_a_wrong_setting_ends_with_2_and_says_which(
    typed: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(run, typed)
    assert ended.exit_code == 2
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_ready_mark_is_one_line_and_an_end() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as ready:
        mark = ReadyMark(writing)
        assert not os.get_inheritable(writing)
        mark.set()
        mark.set()
        assert ready.read() == b"READY\n"


def test_a_ready_mark_needs_an_open_descriptor() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(ConfigError, match=f"--ready-fd {writing}: Bad file descriptor"):
        ReadyMark(writing)
