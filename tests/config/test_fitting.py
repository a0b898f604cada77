from __future__ import annotations

from typing import Any

import pytest

from dirtybus.config import DirtyConfig
from dirtybus.config.fitting import Deadline, doubts
from dirtybus.errors import ConfigError


def told(*deadlines: Deadline, **settings: Any) -> list[str]:
    return list(doubts(DirtyConfig(**settings), deadlines))


def test_a_shutdown_that_just_fits_what_the_supervisor_waits_is_taken() -> None:
    config = DirtyConfig(drain_delay_s=5.0, graceful_timeout_s=20.0, stop_grace_s=30.0)
    assert config.stop_grace_s == 30.0


def test_without_a_stop_grace_any_shutdown_is_taken() -> None:
    assert DirtyConfig(drain_delay_s=1000.0, graceful_timeout_s=1000.0).stop_grace_s is None


def test_a_shutdown_that_outlasts_the_supervisor_is_refused_with_every_number_and_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        DirtyConfig(drain_delay_s=10.0, graceful_timeout_s=30.0, stop_grace_s=30.0)
    assert str(caught.value) == (
        "stop_grace_s is 30, but a shutdown may take 45 s: drain_delay_s (10) + graceful_timeout_s (30) + 5 for the "
        "rest; the supervisor would kill it in the middle. Have the supervisor wait 45 s and set stop_grace_s to that, "
        "or lower graceful_timeout_s to 15 or less"
    )


def test_a_delay_that_leaves_nothing_for_the_work_is_what_is_to_be_lowered() -> None:
    with pytest.raises(ConfigError, match=r"or lower drain_delay_s$"):
        DirtyConfig(drain_delay_s=30.0, graceful_timeout_s=10.0, stop_grace_s=30.0)


def test_of_the_settings_as_they_come_nobody_is_warned() -> None:
    assert told() == []


def test_an_action_that_a_shutdown_would_cut_is_named_with_its_time() -> None:
    (line,) = told(Deadline("shop:Model train", 600.0), Deadline("shop:Model look", 2.0))
    assert line.startswith("calls of shop:Model train (600 s) may take longer than a shutdown waits for them")
    assert "graceful_timeout_s is 30" in line
    assert "look" not in line


def test_an_action_without_a_deadline_is_named() -> None:
    (line,) = told(Deadline("shop:Model ticks", None))
    assert "shop:Model ticks (no deadline)" in line


def test_many_such_actions_make_one_line() -> None:
    (line,) = told(*(Deadline(f"shop:Model a{number}", 600.0) for number in range(20)))
    assert "a4 (600 s) and 15 more may take longer" in line


def test_the_pools_own_timeout_is_named_when_somebody_chose_it() -> None:
    (line,) = told(timeout_s=60.0)
    assert "whatever has no timeout of its own (60 s)" in line
    assert told(timeout_s=30.0) == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cancel_grace_s": 30.0}, "cancel_grace_s is 30 but graceful_timeout_s is 30"),
        ({"heartbeat_timeout_s": 4.0}, "heartbeat_timeout_s is 4 but cancel_grace_s is 5"),
        ({"queue_timeout_s": 300.0}, "queue_timeout_s is 300 but timeout_s is 300"),
    ],
)
def test_limits_that_undo_each_other_are_named(settings: dict[str, float], named: str) -> None:
    (line,) = told(**settings)
    assert line.startswith(named)


@pytest.mark.parametrize(
    "settings",
    [
        {"cancel_grace_s": 29.0},
        {"heartbeat_timeout_s": None, "cancel_grace_s": 10.0},
        {"heartbeat_timeout_s": 5.0},
        {"queue_timeout_s": 299.0},
    ],
)
def test_limits_that_fit_are_not_spoken_of(settings: dict[str, Any]) -> None:
    assert told(**settings) == []


def test_a_shutdown_that_cuts_at_once_has_no_grace_to_speak_of() -> None:
    assert not any("cancel_grace" in line for line in told(graceful_timeout_s=0.0))
