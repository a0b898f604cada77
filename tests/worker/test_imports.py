from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dirtybus.worker.imports import after_import, limit_onnxruntime
from tests.arbiter.serving import serving

_ONNXRUNTIME = """
class SessionOptions:
    def __init__(self):
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0


class InferenceSession:
    def __init__(self, path_or_bytes, sess_options=None, providers=None, **kwargs):
        self.options, self.providers, self.more = sess_options, providers, kwargs
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for modules; what is imported from there is forgotten afterwards, and so are the hooks."""
    monkeypatch.syspath_prepend(tmp_path)
    before, finders = set(sys.modules), list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        del sys.modules[name]
    importlib.invalidate_caches()


def package(site: Path, name: str, text: str = "value = 1\n", **submodules: str) -> None:
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(text)
    for submodule, code in submodules.items():
        (site / name / f"{submodule}.py").write_text(code)
    importlib.invalidate_caches()


def test_the_hook_runs_once_when_the_module_is_whole(site: Path) -> None:
    package(site, "later")
    seen: list[int] = []
    after_import("later", lambda module: seen.append(module.value))
    assert seen == []
    for _ in range(2):
        importlib.import_module("later")
    assert seen == [1]


def test_what_is_there_already_is_hooked_at_once(site: Path) -> None:
    package(site, "later")
    module = importlib.import_module("later")
    seen: list[ModuleType] = []
    after_import("later", seen.append)
    assert seen == [module]


def test_a_submodule_imports_its_package_with_the_hook(site: Path) -> None:
    package(site, "later", inner="from later import value\n")
    seen: list[str] = []
    after_import("later", lambda module: seen.append(module.__name__))
    importlib.import_module("later.inner")
    assert seen == ["later"]


def test_looking_whether_a_module_is_there_does_not_use_the_hook_up(site: Path) -> None:
    package(site, "later")
    seen: list[ModuleType] = []
    after_import("later", seen.append)
    for _ in range(2):
        assert importlib.util.find_spec("later") is not None
    assert seen == []
    importlib.import_module("later")
    assert len(seen) == 1


def test_a_module_that_is_not_there_is_missing_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError) as plain:
        importlib.import_module("never_there")
    after_import("never_there", lambda module: None)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError) as hooked:
            importlib.import_module("never_there")
        assert (str(hooked.value), hooked.value.name) == (str(plain.value), plain.value.name)


def test_a_module_that_fails_fails_as_ever_and_may_be_tried_again(site: Path) -> None:
    package(site, "later", "raise ValueError('not today')\n")
    seen: list[ModuleType] = []
    after_import("later", seen.append)
    with pytest.raises(ValueError, match="not today"):
        importlib.import_module("later")
    (site / "later" / "__init__.py").write_text("value = 'a longer text than before'\n")
    importlib.invalidate_caches()
    importlib.import_module("later")
    assert len(seen) == 1


def test_two_threads_that_import_at_once_get_one_hooked_module(site: Path) -> None:
    package(site, "later", "import time; time.sleep(0.1); value = 1\n")
    seen: list[ModuleType] = []
    after_import("later", seen.append)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(importlib.import_module("later"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 1
    assert found == seen * 4


def test_two_hooks_on_one_module_both_run(site: Path) -> None:
    package(site, "later")
    seen: list[str] = []
    after_import("later", lambda _: seen.append("first"))
    after_import("later", lambda _: seen.append("second"))
    importlib.import_module("later")
    assert sorted(seen) == ["first", "second"]


def test_a_loader_that_serves_other_modules_too_hooks_only_the_one(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(site / "modules.zip", "w") as archive:
        archive.writestr("zipped.py", "value = 1\n")
        archive.writestr("neighbour.py", "value = 2\n")
    monkeypatch.syspath_prepend(site / "modules.zip")
    seen: list[int] = []
    after_import("zipped", lambda module: seen.append(module.value))
    importlib.import_module("zipped")
    importlib.import_module("neighbour")
    assert seen == [1]


def test_a_hooked_module_shows_its_real_loader(site: Path) -> None:
    package(site, "later")
    after_import("later", lambda module: None)
    module = importlib.import_module("later")
    assert module.__spec__ is not None
    assert type(module.__loader__).__module__ == "_frozen_importlib_external"
    assert module.__spec__.loader is module.__loader__


def test_sessions_get_the_threads_unless_their_author_chose(site: Path) -> None:
    package(site, "stand_in", _ONNXRUNTIME)
    after_import("stand_in", limit_onnxruntime(2))
    ort: Any = importlib.import_module("stand_in")
    plain = ort.InferenceSession("model", providers=["CPU"], extra=1)
    assert (plain.options.intra_op_num_threads, plain.options.inter_op_num_threads) == (2, 2)
    assert (plain.providers, plain.more) == (["CPU"], {"extra": 1})
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = 5
    session = ort.InferenceSession("model", chosen)
    assert session.options is chosen
    assert (chosen.intra_op_num_threads, chosen.inter_op_num_threads) == (5, 2)


def test_an_onnxruntime_without_sessions_is_left_alone(site: Path) -> None:
    package(site, "bare_stand_in", "")
    after_import("bare_stand_in", limit_onnxruntime(1))
    importlib.import_module("bare_stand_in")


_APP = """
import onnxruntime
from dirtybus import DirtyApp


class Session(DirtyApp):
    def count(self):
        options = onnxruntime.InferenceSession("model").options
        return None if options is None else options.intra_op_num_threads
"""


async def test_in_a_worker_a_session_has_one_thread_unless_told_otherwise(site: Path) -> None:
    package(site, "onnxruntime", _ONNXRUNTIME)
    (site / "session_app.py").write_text(_APP)
    app = "session_app:Session"
    async with serving(app, pythonpath=(str(site),)) as arbiter:
        assert await arbiter.call(app, "count") == 1
    async with serving(app, pythonpath=(str(site),), compute_threads=None) as arbiter:
        assert await arbiter.call(app, "count") is None


_REAL_APP = """
from pathlib import Path

import magika
import onnxruntime
from dirtybus import DirtyApp


class Session(DirtyApp):
    def count(self):
        model = next(Path(magika.__file__).parent.rglob("*.onnx"))
        options = onnxruntime.InferenceSession(str(model)).get_session_options()
        return options.intra_op_num_threads, options.inter_op_num_threads
"""


@pytest.mark.interop
@pytest.mark.skipif(importlib.util.find_spec("magika") is None, reason="needs magika: pip install 'dirtybus[demo]'")
async def test_a_real_session_has_one_thread(site: Path) -> None:
    (site / "real_session_app.py").write_text(_REAL_APP)
    async with serving("real_session_app:Session", pythonpath=(str(site),)) as arbiter:
        assert await arbiter.call("real_session_app:Session", "count") == (1, 1)
