from __future__ import annotations

from pathlib import Path

import pytest

from dirtybus.demo import files
from dirtybus.demo.files import find_files


def tree(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def found(root: Path, limit: int = 100) -> list[str]:
    return [str(Path(path).relative_to(root)) for path in find_files(root, limit)]


def test_files_come_as_absolute_paths_in_the_same_order_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "b", "a", "d/x", "c/y")
    monkeypatch.chdir(tmp_path)
    assert find_files(Path(), 100) == [str(tmp_path / name) for name in ("a", "b", "c/y", "d/x")]


def test_hidden_directories_environments_and_caches_are_left_out(tmp_path: Path) -> None:
    tree(tmp_path, ".git/config", "venv/pyvenv.cfg", "venv/lib/x.py", "__pycache__/a.pyc", "node_modules/a.js")
    tree(tmp_path, ".gitignore", "src/a.py")
    assert found(tmp_path) == [".gitignore", "src/a.py"]


def test_large_files_links_and_what_is_no_file_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    tree(tmp_path, "small")
    (tmp_path / "large").write_bytes(bytes(11))
    (tmp_path / "link").symlink_to(tmp_path / "small")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert found(tmp_path) == ["small"]


def test_no_more_than_the_limit_are_taken(tmp_path: Path) -> None:
    tree(tmp_path, *map(str, range(10)))
    assert found(tmp_path, 3) == ["0", "1", "2"]
