"""The verbs for clients, in this process, against one real owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner, Result

from dirtybus.cli.verbs import dirtybus
from tests.cli.owners import SHOP, Owner, owner_of


class Type(Protocol):
    def __call__(self, *typed: str, stdin: bytes | None = None) -> Result: ...


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    arguments = (SHOP, "tests.cli.apps:Wide", "--workers", "2", "--threads", "2", "--name", "shop")
    with owner_of(*arguments, at=tmp_path_factory.mktemp("owner")) as running:
        yield running


@pytest.fixture
def type_(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Type a verb of the owner; returns how it ended."""
    monkeypatch.setenv("DIRTYBUS_SOCKET", owner.socket)

    def typed(*words: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(dirtybus, words, input=stdin)

    return typed


@pytest.fixture
def call(type_: Type) -> Type:
    """Type a call of the shop."""

    def typed(*words: str, stdin: bytes | None = None) -> Result:
        return type_("call", SHOP, *words, stdin=stdin)

    return typed


def test_call_gives_values_and_keywords_to_the_action(call: Type) -> None:
    ended = call("echo", "1", "two", "a=[3]", 'b="4"', "--json")
    assert json.loads(ended.stdout) == [[1, "two"], {"a": [3], "b": "4"}]
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_call_takes_arguments_as_one_json_text(call: Type) -> None:
    assert json.loads(call("echo", "--args", '{"x": 1}', "0", "--json").stdout) == [[0], {"x": 1}]


def test_call_sends_the_bytes_of_files_and_of_stdin(call: Type, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\x00" * 1234)
    assert call("size", f"blob=@{tmp_path / 'blob'}").stdout == "1234\n"
    assert call("size", "@-", stdin=b"\xff" * 17).stdout == "17\n"


def test_call_takes_values_with_a_dash_after_two_dashes(call: Type) -> None:
    assert json.loads(call("echo", "--json", "--", "-5", "--stream").stdout) == [[-5, "--stream"], {}]


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("text", b"plain text\n", "plain text"),
        ("bytes", b"\x00\xff", {"base64": "AP8="}),
        ("none", b"None\n", None),
        ("mixed", b"{1: {2}, 'b': (3.5, b'x')}\n", [[1, [2]], ["b", [3.5, {"base64": "eA=="}]]]),
    ],
)
def test_call_writes_a_result_for_people_and_for_programs(call: Type, kind: str, raw: bytes, value: Any) -> None:
    assert call("value", kind).stdout_bytes == raw
    assert json.loads(call("value", kind, "--json").stdout) == value


def test_a_stream_of_text_flows_and_other_values_stand_alone(call: Type) -> None:
    assert call("tokens", "3", "--stream").stdout == "token0 token1 token2 \n"
    assert call("numbers", "3", "--stream").stdout == "0\n1\n2\n"
    assert call("tokens", "0", "--stream").stdout == ""


def test_a_stream_as_json_is_one_document_a_line(call: Type) -> None:
    lines = call("tokens", "2", "--stream", "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == ["token0 ", "token1 "]


def test_without_stream_a_generator_gives_the_list_of_its_values(call: Type) -> None:
    assert json.loads(call("numbers", "3", "--json").stdout) == [0, 1, 2]


def test_a_stream_that_breaks_keeps_what_came_before(call: Type) -> None:
    ended = call("half", "--stream")
    assert ended.exit_code == 1
    assert ended.stdout == "before"
    assert "ValueError: in the middle" in ended.stderr


def test_progress_is_for_terminals_only(call: Type) -> None:
    ended = call("cook", "3")
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_an_action_that_fails_says_so_on_stderr_and_ends_with_1(call: Type) -> None:
    ended = call("fail")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("dirtybus: ValueError: no such fish\n  | Traceback")


def test_an_action_that_fails_leaves_stdout_empty_and_one_line_of_json(call: Type) -> None:
    ended = call("fail", "--json")
    assert (ended.exit_code, ended.stdout) == (1, "")
    told = json.loads(ended.stderr)
    assert told["exit"] == 1
    assert told["error"]["code"] == "app"
    assert told["error"]["details"]["error_type"] == "ValueError"


def test_a_call_that_is_late_ends_with_124(call: Type) -> None:
    ended = call("rest", "30", "--timeout", "100ms")
    assert ended.exit_code == 124
    assert "not done within 0.1 s" in ended.stderr


def test_a_misspelt_action_or_app_is_told_the_nearest(call: Type, type_: Type) -> None:
    assert "did you mean 'echo'?" in call("eco").stderr
    assert f"did you mean '{SHOP}'?" in type_("call", f"{SHOP}s", "echo").stderr


def test_status_shows_every_worker(type_: Type, owner: Owner) -> None:
    told = json.loads(type_("status", "--json").stdout)
    assert told["schema"] == "dirtybus.status/1"
    assert (told["name"], told["pid"], told["state"], told["ready"]) == ("shop", owner.process.pid, "open", True)
    assert told["socket"] == owner.socket
    assert len(told["workers"]) == told["target"] == 2
    ledger = told["ledger"]
    assert ledger["submitted"] >= ledger["succeeded"]
    lines = type_("status").stdout.splitlines()
    assert lines[1].startswith(f"shop\topen\t{owner.process.pid}\t2\t")


def test_scale_says_what_is_aimed_at(type_: Type) -> None:
    assert json.loads(type_("scale", "2", "--json").stdout)["workers"] == 2
    assert type_("scale", "2").stdout == "2 workers\n"


def test_scale_below_what_an_app_requires_ends_with_1_and_why(type_: Type) -> None:
    ended = type_("scale", "1")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "aimed at 2 workers instead of 1" in ended.stderr
    assert "required by app specs" in ended.stderr
    told = json.loads(type_("scale", "1", "--json").stderr)
    assert (told["error"]["details"]["workers"], told["exit"]) == (2, 1)


JSON_VERBS = [
    ["call", SHOP, "echo"],
    ["call", SHOP, "value", "mixed"],
    ["call", SHOP, "fail"],
    ["call", SHOP, "nonsense"],
    ["call", "no:App", "x"],
    ["call", SHOP, "echo", "a=1", "late"],
    ["status"],
    ["scale", "2"],
    ["scale", "1"],
]


@pytest.mark.parametrize("words", JSON_VERBS, ids=" ".join)
def test_with_json_either_stdout_or_stderr_is_one_document(type_: Type, words: list[str]) -> None:
    ended = type_(*words, "--json")
    document, silence = (ended.stdout, ended.stderr) if ended.exit_code == 0 else (ended.stderr, ended.stdout)
    assert silence == ""
    assert document.count("\n") == 1
    json.loads(document)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["status"], 3), (["call", "m:C", "x"], 69), (["scale", "1"], 69), (["stop"], 69)],
    ids=lambda words: " ".join(words) if isinstance(words, list) else None,
)
def test_where_nothing_runs_each_verb_says_what_to_type(words: list[str], code: int, tmp_path: Path) -> None:
    path = str(tmp_path / "nobody.sock")
    ended = CliRunner().invoke(dirtybus, [*words, "--socket", path])
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert path in ended.stderr
    assert "dirtybus run module:Class" in ended.stderr
    told = json.loads(CliRunner().invoke(dirtybus, [*words, "--socket", path, "--json"]).stderr)
    assert (told["exit"], told["error"]["code"]) == (code, "connection")
