from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dirtybus.config import AppSpec, DirtyConfig, GateConfig
from dirtybus.config.sources import SettingSource, explain_config, load_config
from dirtybus.errors import ConfigError


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(file: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ=environ or {}, overrides=overrides)
    return str(caught.value)


def test_without_any_source_the_defaults_hold() -> None:
    assert load_config(environ={}) == DirtyConfig()


def test_arguments_beat_environment_beats_file_beats_default(directory: Path) -> None:
    (directory / "dirtybus.toml").write_text('workers = 2\nthreads = 2\ntimeout = "2m"\n')
    config = load_config(environ={"DIRTYBUS_THREADS": "3", "DIRTYBUS_TIMEOUT": "3m"}, overrides={"dirty_timeout": 4})
    assert (config.crash_limit, config.workers, config.threads, config.timeout_s) == (2, 2, 3, 4.0)


def test_tables_are_taken_setting_by_setting(directory: Path) -> None:
    (directory / "dirtybus.toml").write_text(
        '[gate]\nmode = "drop"\nmax_concurrent = 1\n[env]\nA = "1"\nB = 2\n[hooks]\ndirty_post_fork = "a:b"\n'
    )
    config = load_config(
        environ={"DIRTYBUS_GATE_MAX_CONCURRENT": "2", "DIRTYBUS_ENV": "B=3", "DIRTYBUS_DIRTY_WORKER_INIT": "c:d"},
        overrides={"gate": {"hold_timeout": "5s"}},
    )
    assert config.gate == GateConfig(mode="drop", max_concurrent=2, hold_timeout_s=5.0)
    assert config.env == {"A": "1", "B": "3"}
    assert config.hooks == {"dirty_post_fork": "a:b", "dirty_worker_init": "c:d"}


def test_the_environment_sets_what_its_names_say() -> None:
    config = load_config(
        environ={
            "DIRTYBUS_APPS": "a:A,b:B:2",
            "DIRTYBUS_WORKERS": "4",
            "DIRTYBUS_TIMEOUT": "0",
            "DIRTYBUS_MAX_PAYLOAD_BYTES": "1GiB",
            "DIRTYBUS_SOCKET": "/run/d.sock",
            "DIRTYBUS_NAME": "shop",
            "HOME": "/root",
        }
    )
    assert config == DirtyConfig(
        apps=(AppSpec("a:A"), AppSpec("b:B", 2)),
        workers=4,
        timeout_s=None,
        max_payload_bytes=2**30,
        socket="/run/d.sock",
        name="shop",
    )


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert load_config(environ={"DIRTYBUS_WORKERS": "", "DIRTYBUS_NO_SUCH_THING": ""}) == DirtyConfig()


@pytest.mark.parametrize(
    "name",
    [
        "DIRTYBUS_RUNTIME_DIR",
        "DIRTYBUS_LOG_LEVEL",
        "DIRTYBUS_INTERNAL_LINK_FD",
        "DIRTYBUS_SERVICE_HOST",
        "DIRTYBUS_SERVICE_PORT_HTTP",
        "DIRTYBUS_PORT",
        "DIRTYBUS_PORT_8080_TCP_ADDR",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(name: str) -> None:
    assert load_config(environ={name: "x"}) == DirtyConfig()


def test_a_variable_of_another_name_is_refused_with_the_nearest_one() -> None:
    assert refusal(environ={"DIRTYBUS_TIMOUT": "5"}) == (
        "environment: unknown setting 'DIRTYBUS_TIMOUT'; did you mean 'DIRTYBUS_TIMEOUT'?"
    )


def test_a_variable_that_does_not_fit_is_refused_by_its_own_name() -> None:
    message = refusal(environ={"DIRTYBUS_GATE_MODE": "shut"})
    assert message == "DIRTYBUS_GATE_MODE (environment): 'shut' is not one of 'hold', 'drop'"


def test_two_variables_for_one_setting_are_refused() -> None:
    message = refusal(environ={"DIRTYBUS_TIMEOUT": "5", "DIRTYBUS_TIMEOUT_S": "6"})
    assert (
        message == "DIRTYBUS_TIMEOUT_S (environment): DIRTYBUS_TIMEOUT (environment) sets the same; keep one of the two"
    )


def test_the_table_in_pyproject_is_found(directory: Path) -> None:
    (directory / "pyproject.toml").write_text("[tool.dirtybus]\nworkers = 3\n")
    assert load_config(environ={}).workers == 3


def test_a_pyproject_that_says_nothing_of_us_is_passed_over(directory: Path) -> None:
    for text in ("", "tool = 5\n", "[tool.ruff]\nline-length = 5\n"):
        (directory / "pyproject.toml").write_text(text)
        assert load_config(environ={}) == DirtyConfig()


def test_our_own_file_comes_before_pyproject(directory: Path) -> None:
    (directory / "pyproject.toml").write_text("[tool.dirtybus]\nworkers = 3\nthreads = 3\n")
    (directory / "dirtybus.toml").write_text("workers = 2\n")
    config = load_config(environ={})
    assert (config.workers, config.threads) == (2, 1)


def test_a_named_file_is_the_only_one_read(directory: Path) -> None:
    (directory / "dirtybus.toml").write_text("workers = 2\n")
    other, pyproject = directory / "other.toml", directory / "pyproject.toml"
    other.write_text("threads = 5\n")
    pyproject.write_text("[tool.dirtybus]\nthreads = 6\n")
    assert load_config(other, environ={}) == DirtyConfig(threads=5)
    assert load_config(environ={"DIRTYBUS_CONFIG": str(other)}) == DirtyConfig(threads=5)
    assert load_config(pyproject, environ={"DIRTYBUS_CONFIG": str(other)}) == DirtyConfig(threads=6)


def test_a_file_that_is_not_there_is_refused(directory: Path) -> None:
    missing = directory / "missing.toml"
    assert refusal(missing) == f"cannot read the settings in {missing}: No such file or directory"


@pytest.mark.parametrize("content", [b"workers = ", b'name = "\xff"\n'])
def test_a_file_that_is_not_toml_is_refused(directory: Path, content: bytes) -> None:
    (directory / "dirtybus.toml").write_bytes(content)
    assert refusal().startswith("dirtybus.toml is not a TOML file: ")


@pytest.mark.parametrize("heading", ["dirtybus", "tool.dirtybus"])
def test_a_heading_in_our_own_file_is_refused_with_the_remedy(directory: Path, heading: str) -> None:
    (directory / "dirtybus.toml").write_text(f"[{heading}]\nworkers = 3\n")
    assert "has a table [" in refusal()
    assert "leave that heading out" in refusal()


def test_a_named_pyproject_without_our_table_is_refused(directory: Path) -> None:
    pyproject = directory / "pyproject.toml"
    pyproject.write_text("[tool.ruff]\n")
    assert refusal(pyproject) == f"{pyproject} has no table [tool.dirtybus]; add it, or name another file"


def test_a_setting_in_a_file_that_does_not_fit_is_refused_with_the_file(directory: Path) -> None:
    (directory / "pyproject.toml").write_text("[tool.dirtybus]\nworkers = 1.5\n")
    assert refusal() == "workers (pyproject.toml [tool.dirtybus]): 1.5 is not a whole number"
    (directory / "pyproject.toml").write_text("[tool]\ndirtybus = 5\n")
    assert refusal() == "pyproject.toml [tool.dirtybus]: 5 is not a table of settings"


def test_every_setting_is_explained_with_its_source(directory: Path) -> None:
    (directory / "dirtybus.toml").write_text('workers = 2\n[env]\nA = "1"\n')
    rows = explain_config(
        environ={"DIRTYBUS_GATE_MODE": "drop"}, overrides={"timeout": "5s", "on_dirty_starting": "a:b"}
    )
    sources = {row.name: row.source for row in rows if row.source != "default"}
    assert sources == {
        "workers": "workers (dirtybus.toml)",
        "env.A": "env.A (dirtybus.toml)",
        "gate.mode": "DIRTYBUS_GATE_MODE (environment)",
        "timeout_s": "timeout (arguments)",
        "hooks.on_dirty_starting": "on_dirty_starting (arguments)",
    }
    assert SettingSource("threads", 1, "default") in rows
    assert SettingSource("gate.max_concurrent", 10, "default") in rows
