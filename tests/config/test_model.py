from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.config import AppSpec, DirtyConfig, GateConfig
from dirtybus.errors import ConfigError

LIMITS_S = ["timeout_s", "boot_timeout_s", "stream_idle_timeout_s"]
SPANS_S = ["graceful_timeout_s", "cancel_grace_s", "restart_delay_max_s", "healthy_after_s"]
COUNTS = ["threads", "async_concurrency", "max_queued", "stream_window", "crash_limit"]


def anyhow(**settings: Any) -> DirtyConfig:
    """Construct past the type checker, as untyped callers do."""
    return DirtyConfig(**settings)


def test_the_defaults_fit() -> None:
    assert DirtyConfig() == DirtyConfig.of() == DirtyConfig.from_mapping({})
    assert GateConfig() == DirtyConfig().gate


def test_settings_are_frozen_and_by_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DirtyConfig().workers = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        DirtyConfig(())  # type: ignore[call-arg]


@pytest.mark.parametrize("name", LIMITS_S)
@pytest.mark.parametrize("none", [None, 0, 0.0])
def test_zero_and_none_are_no_limit(name: str, none: float | None) -> None:
    assert getattr(anyhow(**{name: none}), name) is None


def test_zero_is_no_limit_in_the_gate_and_for_compute_threads() -> None:
    gate = GateConfig(max_concurrent=0, max_pending=0, hold_timeout_s=0)
    assert (gate.max_concurrent, gate.max_pending, gate.hold_timeout_s) == (None, None, None)
    assert DirtyConfig(compute_threads=0).compute_threads is None


@pytest.mark.parametrize("name", [*LIMITS_S, *SPANS_S])
@pytest.mark.parametrize("value", [-1, -0.001, math.inf, math.nan, 10**30, True, False, "5m", [5]])
def test_what_is_no_span_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: .*(out of range; it must be >|is not a number of seconds)"):
        anyhow(**{name: value})


@pytest.mark.parametrize("name", SPANS_S)
def test_a_span_that_always_ends_cannot_be_none(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: None is not a number of seconds"):
        anyhow(**{name: None})


@pytest.mark.parametrize("name", ["timeout_s", "graceful_timeout_s"])
def test_whole_seconds_are_kept_as_floats(name: str) -> None:
    assert type(getattr(anyhow(**{name: 5}), name)) is float


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1])
def test_a_count_below_one_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: {value} is out of range; it must be >= 1$"):
        anyhow(**{name: value})


@pytest.mark.parametrize("name", ["workers", "compute_threads", *COUNTS])
@pytest.mark.parametrize("value", [True, False, 1.0, "2", [2]])
def test_what_is_no_whole_number_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: .* is not a whole number"):
        anyhow(**{name: value})


@pytest.mark.parametrize("size", [-1, 0, 1023, 2**32])
def test_a_payload_limit_that_no_frame_can_keep_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=r"^max_payload_bytes: .* must be >= 1024 and <= 4294967295"):
        DirtyConfig(max_payload_bytes=size)


def test_no_workers_are_fine_without_apps() -> None:
    assert DirtyConfig(workers=0).workers == 0
    with pytest.raises(ConfigError, match="app 'a:A' has no worker to run on"):
        DirtyConfig(workers=0, apps=(AppSpec("a:A"),))


def test_apps_that_the_pool_cannot_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match="app 'a:A' wants 4 workers but the pool has 2"):
        DirtyConfig(workers=2, apps=(AppSpec("a:A", 4),))


def test_a_restart_delay_beyond_its_bound_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="raise restart_delay_max_s to 60 or more"):
        DirtyConfig(restart_delay_s=60)


@pytest.mark.parametrize("name", ["", "-x", "a/b", "a b", "x" * 65, "name\n", 5, None])
def test_a_name_that_could_not_be_part_of_a_path_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"^name: .* is not 1 to 64 letters, digits"):
        DirtyConfig(name=name)


@pytest.mark.parametrize("socket", ["", "a\0b", 5, Path("x.sock")])
def test_the_constructor_takes_a_socket_as_text_only(socket: Any) -> None:
    with pytest.raises(ConfigError, match=r"^socket: .* is not the path of a socket"):
        DirtyConfig(socket=socket)


@pytest.mark.parametrize("path", ["src", ("",), (Path("src"),), None, 5])
def test_the_constructor_takes_directories_as_a_tuple_of_texts_only(path: Any) -> None:
    with pytest.raises(ConfigError, match=r"^pythonpath: .* is not a tuple of directories"):
        DirtyConfig(pythonpath=path)


@pytest.mark.parametrize("env", [{"A": 1}, {"A": "a\0"}, {"A=B": "x"}, {"": "x"}, {5: "x"}, 5])
def test_variables_that_no_process_could_have_are_refused(env: Any) -> None:
    with pytest.raises(ConfigError, match=r"^env: "):
        DirtyConfig(env=env)


def test_variables_may_hold_secrets_so_they_are_not_shown() -> None:
    assert "hunter2" not in repr(DirtyConfig(env={"TOKEN": "hunter2"}))
    with pytest.raises(ConfigError) as caught:
        DirtyConfig(env={"TOKEN": "hunter2\0"})
    assert "hunter2" not in str(caught.value)


def test_variables_cannot_be_changed_later() -> None:
    given_env = {"A": "1"}
    config = DirtyConfig(env=given_env)
    given_env["A"] = "2"
    assert config.env == {"A": "1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_concurrent": -1}, "max_concurrent: -1 is out of range; it must be >= 1, or 0 for no limit"),
        (
            {"max_pending": "many"},
            "max_pending: 'many' is not a whole number; the constructor takes exact types, `of` takes text too",
        ),
        ({"mode": "HOLD"}, "mode: 'HOLD' is not one of 'hold', 'drop'"),
        ({"overflow": None}, "overflow: None is not one of 'drop_new', 'drop_old', 'refuse'"),
        ({"hold_timeout_s": -1}, "hold_timeout_s: -1 is out of range; it must be > 0 seconds, or 0 for no limit"),
        ({"watch_after_s": 0}, "watch_after_s: 0 is out of range; it must be >= 0.1 seconds and <= 100 years"),
    ],
)
def test_a_gate_that_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GateConfig(**settings)
    assert str(caught.value) == message


def test_a_gate_is_given_as_one_to_the_constructor() -> None:
    with pytest.raises(ConfigError, match=r"^gate: .* is not a GateConfig"):
        anyhow(gate={"mode": "drop"})


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        DirtyConfig(name="x" * 10_000)
    assert len(str(caught.value)) < 250


@given(
    workers=st.integers(1, 64),
    timeout_s=st.none() | st.floats(0, 10**6),
    max_concurrent=st.none() | st.integers(0, 100),
    env=st.dictionaries(st.text("AB_", min_size=1), st.text("xyz=,")),
)
def test_replacing_nothing_changes_nothing(
    workers: int, timeout_s: float | None, max_concurrent: int | None, env: dict[str, str]
) -> None:
    config = DirtyConfig(workers=workers, timeout_s=timeout_s, env=env, gate=GateConfig(max_concurrent=max_concurrent))
    assert dataclasses.replace(config) == config
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    assert DirtyConfig.from_mapping(fields) == config


def test_compute_threads_may_be_worked_out() -> None:
    assert DirtyConfig.of(compute_threads=" Auto ").compute_threads == "auto"
    assert DirtyConfig(compute_threads="auto").compute_threads == "auto"
    assert DirtyConfig.of(compute_threads="3").compute_threads == 3
    with pytest.raises(ConfigError, match="'many' is not a whole number"):
        DirtyConfig.of(compute_threads="many")
    with pytest.raises(ConfigError, match="-1 is out of range.*or 'auto'"):
        DirtyConfig(compute_threads=-1)
