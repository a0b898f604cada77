"""The classifier without any bus, with the real model."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("magika")
pytestmark = pytest.mark.interop

from inference import Classifier, files_below  # noqa: E402 - only where the model is installed

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    app = Classifier()
    app.init()
    return app


def test_python_sent_as_bytes_is_told_apart_from_prose(classifier: Classifier) -> None:
    source = (EXAMPLES / "hello.py").read_bytes()
    prose = b"It was a quiet morning, and the bus came as it always did: late, full, and loved by everybody.\n" * 8
    assert classifier.classify(source)["label"] == "python"
    assert classifier.classify(prose)["label"] == "txt"


def test_a_file_named_by_path_gets_the_verdict_of_its_bytes(classifier: Classifier) -> None:
    path = EXAMPLES / "README.md"
    verdict = classifier.classify_file(str(path))
    assert verdict == classifier.classify(path.read_bytes())
    assert verdict["label"] == "markdown"
    assert verdict["mime_type"] == "text/markdown"
    assert 0.5 < verdict["score"] <= 1


def test_a_verdict_is_made_of_plain_values_that_travel(classifier: Classifier) -> None:
    assert [type(value) for value in classifier.classify(b"{}").values()] == [str, str, float]


def test_directories_are_walked_and_files_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.txt").touch()
    single = tmp_path / "c.txt"
    single.touch()
    assert files_below([str(tmp_path)]) == [single, tmp_path / "deep" / "b.txt"]
    assert files_below([str(single)]) == [single]


def test_a_file_that_is_not_there_is_an_error_that_names_it(classifier: Classifier, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert files_below([str(missing)]) == [missing]
    with pytest.raises(OSError, match=f"{missing} cannot be read"):
        classifier.classify_file(str(missing))


def test_without_a_place_the_examples_themselves_are_looked_at() -> None:
    assert EXAMPLES / "inference.py" in files_below([])
