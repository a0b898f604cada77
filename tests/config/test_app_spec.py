from __future__ import annotations

from typing import Any

import pytest

from dirtybus.config import AppSpec, DirtyConfig, check_apps
from dirtybus.errors import ConfigError


class TopLevelApp:
    class Inner:
        pass


def test_a_spec_reads_and_writes_the_same_text() -> None:
    assert [str(AppSpec.parse(text)) for text in ("a.b:C", "a:C:2")] == ["a.b:C", "a:C:2"]
    assert AppSpec.parse(" a:C:2 ") == AppSpec("a:C", 2)


@pytest.mark.parametrize("path", ["", "a", "a:", ":A", "a.:A", "a-b:A", "a:A.B", "a/b:A", 5, None])
def test_a_path_of_another_look_is_refused(path: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not an import path; write it as 'package\.module:Class'"):
        AppSpec(path)


@pytest.mark.parametrize("count", ["0", "-1", "x", "", "1:2", "²", "99999999999"])
def test_a_count_that_is_no_whole_number_is_refused(count: str) -> None:
    with pytest.raises(ConfigError, match="must be a whole number >= 1"):
        AppSpec.parse(f"a:A:{count}")


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_a_spec_refuses_workers_that_are_no_whole_number(workers: Any) -> None:
    with pytest.raises(ConfigError, match="app 'a:A' asks for"):
        AppSpec("a:A", workers)


def test_an_app_that_wants_more_workers_than_there_are_is_refused_with_both_remedies() -> None:
    with pytest.raises(ConfigError) as caught:
        check_apps([AppSpec("a:A", 4)], 2)
    assert str(caught.value) == ("app 'a:A' wants 4 workers but the pool has 2: raise workers to 4 or write 'a:A:2'")


def test_apps_that_fit_are_accepted() -> None:
    check_apps([AppSpec("a:A", 2), AppSpec("a:B"), AppSpec("a:C", 1)], 2)
    check_apps([], 0)


def test_an_app_listed_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="app 'a:A' is listed twice"):
        check_apps([AppSpec("a:A"), AppSpec("a:A", 1)], 2)


def test_apps_without_any_worker_are_refused() -> None:
    with pytest.raises(ConfigError, match="app 'a:A' has no worker to run on; set workers to 1 or more"):
        check_apps([AppSpec("a:A")], 0)


def test_apps_are_given_as_text_specs_or_classes() -> None:
    specs = (AppSpec("a:A"), AppSpec("b:B", 1), AppSpec(f"{__name__}:TopLevelApp"))
    assert DirtyConfig.of("a:A", AppSpec("b:B", 1), TopLevelApp).apps == specs
    assert DirtyConfig.of(apps=["a:A", "b:B:1", TopLevelApp]).apps == specs
    assert DirtyConfig.of(apps=f"a:A, b:B:1, {__name__}:TopLevelApp,").apps == specs
    assert DirtyConfig.of(apps=TopLevelApp).apps == specs[2:]
    assert DirtyConfig.of(apps=AppSpec("a:A")).apps == specs[:1]


def test_a_class_that_no_other_process_can_import_is_refused() -> None:
    class Local:
        pass

    for app in (Local, TopLevelApp.Inner):
        with pytest.raises(ConfigError, match="cannot be found by name from a worker; define it at the top level"):
            DirtyConfig.of(app)


@pytest.mark.parametrize("apps", [5, None, {"a:A": 1}, [5], [None], [["a:A"]]])
def test_what_is_no_list_of_apps_is_refused(apps: object) -> None:
    with pytest.raises(ConfigError, match=r"apps \(arguments\): .* write (it|each) as 'package\.module:Class'"):
        DirtyConfig.of(apps=apps)


def test_apps_given_in_both_ways_are_refused() -> None:
    with pytest.raises(ConfigError, match="both as arguments and as apps="):
        DirtyConfig.of("a:A", apps=["b:B"])


@pytest.mark.parametrize("apps", ["a:A", ("a:A",), AppSpec("a:A")])
def test_the_constructor_takes_specs_only(apps: Any) -> None:
    with pytest.raises(ConfigError, match=r"apps: .* is not a tuple of AppSpec"):
        DirtyConfig(apps=apps)
