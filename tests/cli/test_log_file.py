from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loguru import logger

from dirtybus.cli.log_sink import LogFile, log_to_file
from dirtybus.errors import ConfigError

OpenLog = Callable[[Path | str], LogFile]


@pytest.fixture
def open_log() -> Iterator[OpenLog]:
    """Open log files; they are closed at the end, and loguru has no sink then."""
    opened: list[LogFile] = []

    def open_one(path: Path | str) -> LogFile:
        opened.append(LogFile(str(path)))
        return opened[-1]

    yield open_one
    logger.remove()
    logger.enable("launart")
    for each in opened:
        each.close()


def test_records_are_added_to_what_the_file_has_a_line_each(open_log: OpenLog, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("from before\n")
    log_to_file(open_log(path), "info")
    logger.debug("too small")
    logger.info("one {}", 1)
    logger.bind(who="worker 1").warning("two")
    before, one, two = path.read_text().splitlines()
    assert before == "from before"
    assert one.endswith("INFO               one 1")
    assert two.endswith("WARNING  worker 1  two")


def test_after_a_rotation_the_records_go_on_in_a_new_file(open_log: OpenLog, tmp_path: Path) -> None:
    path, moved = tmp_path / "log", tmp_path / "log.1"
    file = open_log(path)
    log_to_file(file, "info")
    logger.info("first")
    path.rename(moved)
    logger.info("second")
    file.reopen()
    logger.info("third")
    assert [line.split()[-1] for line in moved.read_text().splitlines()] == ["first", "second"]
    assert [line.split()[-1] for line in path.read_text().splitlines()] == ["third"]


def test_a_file_that_cannot_be_opened_anew_is_written_to_as_before_and_says_so(
    open_log: OpenLog, tmp_path: Path
) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    file = open_log(directory / "log")
    log_to_file(file, "info")
    directory.rename(tmp_path / "moved")
    file.reopen()
    logger.info("still here")
    lines = (tmp_path / "moved" / "log").read_text().splitlines()
    assert "could not be opened anew: No such file or directory" in lines[0]
    assert lines[1].endswith("still here")


def test_a_relative_path_stays_where_it_was_when_the_process_moves(
    open_log: OpenLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = open_log("log")
    monkeypatch.chdir("/")
    file.reopen()
    file.write("here\n")
    assert (tmp_path / "log").read_text() == "here\n"


def test_the_file_has_the_rights_that_the_umask_leaves(open_log: OpenLog, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        open_log(tmp_path / "log").write("x\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o640


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--log-file '.*nowhere/log': No such file or directory"):
        LogFile(str(tmp_path / "nowhere" / "log"))
