from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dirtybus import DirtyApp, action
from dirtybus.app import app_info
from dirtybus.arbiter.directory import Directory, Terms
from dirtybus.config import DirtyConfig
from dirtybus.config.fitting import Deadline
from dirtybus.errors import ConfigError
from dirtybus.pool.model import OnCancel

PATH = "m:App"


def directory(cls: type) -> Directory:
    report = msgspec.to_builtins(app_info(PATH, cls), enc_hook=repr)
    return Directory(DirtyConfig.of(PATH), [report])


def terms(cls: type, name: str) -> Terms:
    return directory(cls).terms(PATH, name, None)


class Plain(DirtyApp):
    def act(self) -> None: ...


class Gentle(DirtyApp):
    on_cancel = "wait"
    on_drain = "release"

    def act(self) -> None: ...

    @action(on_cancel="kill", on_drain="finish")
    def exception(self) -> None: ...

    @action(timeout=5)
    def marked_for_another_reason(self) -> None: ...

    async def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any: ...


def test_nobody_chose_so_it_is_killed_and_waited_for() -> None:
    found = terms(Plain, "act")
    assert (found.on_cancel, found.released_by_drain) == (OnCancel.KILL, False)


@pytest.mark.parametrize("name", ["act", "marked_for_another_reason", "not_listed"])
def test_the_app_chooses_for_all_its_actions(name: str) -> None:
    found = terms(Gentle, name)
    assert (found.on_cancel, found.released_by_drain) == (OnCancel.WAIT, True)


def test_an_action_chooses_for_itself() -> None:
    found = terms(Gentle, "exception")
    assert (found.on_cancel, found.released_by_drain) == (OnCancel.KILL, False)


def test_a_class_without_our_base_may_choose_too() -> None:
    class Duck:
        on_drain = "release"

        def act(self) -> None: ...

    assert terms(Duck, "act").released_by_drain


@pytest.mark.parametrize(("name", "value"), [("on_cancel", "stop"), ("on_drain", None), ("on_drain", ["release"])])
def test_a_word_that_is_none_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"app 'm:App': the class attribute {name} must be '"):
        directory(type("App", (DirtyApp,), {name: value}))


@pytest.mark.parametrize("option", [{"on_cancel": "stop"}, {"on_drain": "cancel"}])
def test_an_option_that_is_none_is_refused_where_it_is_written(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be '"):
        action(**option)


class Slow(DirtyApp):
    timeout = 40

    @action(timeout=600)
    def train(self) -> None: ...

    @action(timeout=0)
    def follow(self) -> None: ...

    @action(timeout=0, on_drain="release")
    def ticks(self) -> None: ...

    def look(self) -> None: ...


def test_deadlines_of_ones_own_are_listed_unless_a_drain_does_not_wait_for_them() -> None:
    assert set(directory(Slow).deadlines) == {
        Deadline(PATH, 40),
        Deadline(f"{PATH} train", 600),
        Deadline(f"{PATH} follow", None),
    }
    assert directory(Plain).deadlines == ()
