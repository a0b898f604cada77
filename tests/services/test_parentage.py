from __future__ import annotations

import pytest

from dirtybus.services.parentage import shell_of


@pytest.mark.parametrize(
    ("pid", "words"),
    [
        (77, ["/bin/sh", "-c", "dirtybus run m:C; true"]),
        (77, ["bash", "-lc", "dirtybus run m:C | tee log"]),
        (77, ["-dash", "-e", "-c", "dirtybus run m:C"]),
        (1, ["/bin/sh", "/entrypoint.sh"]),
    ],
)
def test_a_shell_that_only_runs_us_is_named(pid: int, words: list[str]) -> None:
    assert shell_of(pid, words) == " ".join(words)


@pytest.mark.parametrize(
    ("pid", "words"),
    [
        (77, ["-bash"]),
        (77, ["bash", "--norc", "-i"]),
        (77, ["/bin/sh", "serve.sh"]),
        (77, ["systemd", "-c", "x"]),
        (1, ["/sbin/tini", "--", "dirtybus", "run"]),
        (1, []),
    ],
)
def test_a_terminal_a_script_and_an_init_are_no_such_shell(pid: int, words: list[str]) -> None:
    assert shell_of(pid, words) is None


def test_a_long_command_is_cut() -> None:
    told = shell_of(5, ["sh", "-c", "x" * 500])
    assert told is not None
    assert len(told) < 100
