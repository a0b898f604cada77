from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import AppSpec, DirtyConfig, GateConfig
from dirtybus.errors import ConfigError


def refusal(mapping: Any, source: str = "f") -> str:
    with pytest.raises(ConfigError) as caught:
        DirtyConfig.from_mapping(mapping, source=source)
    return str(caught.value)


@pytest.mark.parametrize("name", ["timeout", "timeout_s", "dirty_timeout"])
@pytest.mark.parametrize(
    ("value", "timeout_s"),
    [("5m", 300), (5, 5), (0.5, 0.5), ("90", 90), (0, None), ("0", None), ("0s", None), (None, None), ("None", None)],
)
def test_a_timeout_is_understood_in_every_form(name: str, value: object, timeout_s: float | None) -> None:
    assert DirtyConfig.from_mapping({name: value}).timeout_s == timeout_s


def test_the_names_of_gunicorn_are_understood() -> None:
    config = DirtyConfig.from_mapping(
        {
            "dirty_apps": ["myapp.ml:MLApp", "myapp.images:ImageApp:1"],
            "dirty_workers": 2,
            "dirty_timeout": 60,
            "dirty_threads": 4,
            "dirty_graceful_timeout": 10,
            "on_dirty_starting": print,
            "dirty_post_fork": "hooks:forked",
            "dirty_worker_init": None,
            "dirty_worker_exit": "hooks:exited",
        }
    )
    assert config == DirtyConfig(
        apps=(AppSpec("myapp.ml:MLApp"), AppSpec("myapp.images:ImageApp", 1)),
        workers=2,
        timeout_s=60.0,
        threads=4,
        graceful_timeout_s=10.0,
        hooks={"on_dirty_starting": print, "dirty_post_fork": "hooks:forked", "dirty_worker_exit": "hooks:exited"},
    )


def test_no_dirty_workers_are_fine_only_without_apps() -> None:
    assert DirtyConfig.from_mapping({"dirty_workers": 0, "dirty_apps": []}).workers == 0
    assert "app 'a:A' has no worker to run on" in refusal({"dirty_workers": 0, "dirty_apps": ["a:A"]})


def test_friendly_forms_are_understood() -> None:
    config = DirtyConfig.of(
        max_payload="64MiB",
        restart_delay="300ms",
        workers=" 4 ",
        compute_threads="none",
        socket=Path("/run/shop.sock"),
        pythonpath=[Path("src"), "lib"],
        env={"OMP_NUM_THREADS": 2, "RATIO": 0.5},
        gate={"mode": "DROP", "max_pending": "none", "hold_timeout": "2m"},
    )
    assert config == DirtyConfig(
        max_payload_bytes=64 * 2**20,
        restart_delay_s=0.3,
        workers=4,
        compute_threads=None,
        socket="/run/shop.sock",
        pythonpath=("src", "lib"),
        env={"OMP_NUM_THREADS": "2", "RATIO": "0.5"},
        gate=GateConfig(mode="drop", max_pending=None, hold_timeout_s=120.0),
    )


def test_lists_are_understood_as_text() -> None:
    config = DirtyConfig.of(pythonpath="src:lib", env="A=1, B=x=y,", socket="none")
    assert (config.pythonpath, config.env, config.socket) == (("src", "lib"), {"A": "1", "B": "x=y"}, None)
    assert DirtyConfig.of(pythonpath=Path("src")).pythonpath == ("src",)


def test_a_gate_is_given_as_a_table_an_object_or_flat() -> None:
    gate = GateConfig(max_concurrent=3, watch_after_s=1.0)
    assert DirtyConfig.of(gate=gate).gate == gate
    assert DirtyConfig.of(gate={"max_concurrent": 3, "watch_after": 1}).gate == gate
    assert DirtyConfig.of(gate_max_concurrent=3, gate_watch_after_s="1s").gate == gate
    assert DirtyConfig.of(gate={}).gate == GateConfig()


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"timeot": 5}, "f: unknown setting 'timeot'; did you mean 'timeout'?"),
        ({"dirty_worker": 5}, "f: unknown setting 'dirty_worker'; did you mean 'dirty_workers'?"),
        ({"gate": {"mod": "drop"}}, "gate (f): unknown setting 'mod'; did you mean 'mode'?"),
        ({"hooks": {"post_fork": "a:b"}}, "hooks (f): unknown setting 'post_fork'; did you mean 'dirty_post_fork'?"),
        ({"workers": "two"}, "workers (f): 'two' is not a whole number"),
        ({"workers": None}, "workers (f): None is not a whole number"),
        ({"workers": True}, "workers (f): True is not a whole number"),
        ({"workers": -1}, "workers (f): -1 is out of range; it must be >= 0"),
        ({"timeout": True}, "timeout (f): True is not a number of seconds"),
        ({"dirty_timeout": -5}, "dirty_timeout (f): -5 is out of range; it must be > 0 seconds, or 0 for no limit"),
        ({"max_payload": 1.5}, "max_payload (f): 1.5 is not a whole number of bytes"),
        ({"gate": {"mode": 5}}, "gate.mode (f): 5 is not one of 'hold', 'drop'"),
        ({"gate": "hold"}, "gate (f): 'hold' is not a table of names and values"),
        ({"env": {"A": []}}, "env.A (f): the value, of type list, is not text without NUL characters"),
        ({"env": {"A": True}}, "env.A (f): the value, of type bool, is not text without NUL characters"),
        ({"env": {"A=": "1"}}, "env (f): 'A=' is not the name of an environment variable"),
        ({"env": "A,B=1"}, "env (f): 'A' has no value; write a list such as 'A=1,B=2'"),
        ({"pythonpath": 5}, "pythonpath (f): 5 is not a tuple of directories"),
        ({"env": 5}, "env (f): 5 is not a table of names and values"),
        ({"timeout": 1, "timeout_s": 2}, "timeout_s (f): timeout (f) sets the same; keep one of the two"),
        ({"apps": [], "dirty_apps": []}, "dirty_apps (f): apps (f) sets the same; keep one of the two"),
        (
            {"hooks": {"dirty_post_fork": "a:b"}, "dirty_post_fork": "a:c"},
            "dirty_post_fork (f): hooks.dirty_post_fork (f) sets the same; keep one of the two",
        ),
        ([("workers", 1)], "f: [('workers', 1)] is not a table of settings"),
    ],
)  # fmt: skip
def test_a_mapping_that_does_not_fit_is_refused_with_its_place(mapping: object, message: str) -> None:
    assert refusal(mapping) == message


def test_a_name_like_no_other_is_refused_with_all_names() -> None:
    assert refusal({"zzz": 5}).startswith("f: unknown setting 'zzz'; there are apps, workers, ")
    assert refusal({5: 5}).startswith("f: unknown setting '5'; there are apps, workers, ")


@given(
    st.dictionaries(
        st.sampled_from(["workers", "timeout", "max_payload", "name", "env", "gate", "hooks", "apps"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.lists(st.text(max_size=4), max_size=2)
        | st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
    )
)
def test_any_mapping_gives_settings_or_a_config_error(mapping: dict[str, object]) -> None:
    try:
        config = DirtyConfig.from_mapping(mapping)
    except ConfigError:
        return
    assert isinstance(config, DirtyConfig)
