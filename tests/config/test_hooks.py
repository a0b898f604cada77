from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from dirtybus.config import HOOKS, DirtyConfig
from dirtybus.errors import ConfigError


def top_level(*_: object) -> None:
    pass


class Listener:
    def method(self) -> None:
        pass


def in_main() -> None:
    pass


in_main.__module__ = "__main__"
WORKER_HOOKS = ["dirty_post_fork", "dirty_worker_init"]
OWNER_HOOKS = ["on_dirty_starting", "dirty_worker_exit"]


def test_there_are_four_hooks() -> None:
    assert set(HOOKS) == {*WORKER_HOOKS, *OWNER_HOOKS}


@pytest.mark.parametrize("hook", OWNER_HOOKS)
@pytest.mark.parametrize("value", [top_level, partial(top_level), Listener().method, "a.b:hook"])
def test_a_hook_of_the_owner_is_kept_as_it_is(hook: str, value: object) -> None:
    assert DirtyConfig(hooks={hook: value}).hooks == {hook: value}


@pytest.mark.parametrize("hook", WORKER_HOOKS)
def test_a_hook_of_the_worker_becomes_an_import_path(hook: str) -> None:
    path = f"{__name__}:top_level"
    assert DirtyConfig(hooks={hook: top_level}).hooks == {hook: path}
    assert DirtyConfig.of(**{hook: top_level}).hooks == {hook: path}
    assert DirtyConfig(hooks={hook: path}).hooks == {hook: path}


@pytest.mark.parametrize("value", [lambda: None, partial(top_level), Listener().method, Listener.method])
def test_a_hook_that_a_worker_cannot_import_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"hooks: dirty_post_fork: .* define it at the top level of a module"):
        DirtyConfig(hooks={"dirty_post_fork": value})


def test_a_hook_of_the_worker_that_lives_in_main_is_refused() -> None:
    with pytest.raises(ConfigError, match="in_main lives in __main__, which a worker does not have; move it"):
        DirtyConfig(hooks={"dirty_worker_init": in_main})


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("value", [5, "print", ""])
def test_what_is_neither_callable_nor_path_is_refused(hook: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"{hook} \(arguments\): .* write 'package\.module:function'"):
        DirtyConfig.of(**{hook: value})


def test_a_hook_that_is_none_is_not_set() -> None:
    assert DirtyConfig.of(dirty_post_fork=None, hooks={"dirty_worker_exit": None}).hooks == {}


def test_hooks_in_a_table_and_beside_it_are_one_set() -> None:
    config = DirtyConfig.of(hooks={"dirty_post_fork": "a:b"}, on_dirty_starting=top_level)
    assert config.hooks == {"dirty_post_fork": "a:b", "on_dirty_starting": top_level}


@pytest.mark.parametrize("hooks", [{"dirty_postfork": top_level}, {5: top_level}])
def test_a_hook_of_another_name_is_refused(hooks: Any) -> None:
    with pytest.raises(ConfigError, match=r"hooks.*unknown setting"):
        DirtyConfig(hooks=hooks)
    with pytest.raises(ConfigError, match=r"hooks.*unknown setting"):
        DirtyConfig.of(hooks=hooks)


def test_hooks_cannot_be_changed_later() -> None:
    given: dict[str, object] = {"on_dirty_starting": top_level}
    config = DirtyConfig(hooks=given)
    given.clear()
    assert config.hooks == {"on_dirty_starting": top_level}
    with pytest.raises(TypeError):
        config.hooks["dirty_post_fork"] = "a:b"  # type: ignore[index]
