"""The greeter without any bus: an app is a plain object."""

from __future__ import annotations

import os

from hello import Greeter


def greeter() -> Greeter:
    app = Greeter()
    app.init()
    return app


def test_a_greeter_counts_whom_it_greeted() -> None:
    app = greeter()
    assert app.greet("Ada") == f"Hello, Ada! You are number 1 in process {os.getpid()}."
    assert "number 2" in app("greet", "Grace")


def test_every_greeter_has_a_count_of_its_own() -> None:
    greeter().greet("Ada")
    assert "number 1" in greeter().greet("Grace")


def test_spelling_yields_the_words_one_by_one() -> None:
    words = greeter().spell("nothing is lost")
    assert next(words) == "nothing"
    assert list(words) == ["is", "lost"]
