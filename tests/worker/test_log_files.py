from __future__ import annotations

import asyncio
import logging
import logging.handlers
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirtybus.log_files import reopen_log_files
from tests.arbiter.serving import serving, until

LOUD = "tests.apps.loud:Loud"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("tests.log_files")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def file_handlers(path: Path) -> list[logging.FileHandler]:
    return [
        logging.FileHandler(path, delay=True),
        logging.FileHandler(path, mode="w"),
        logging.handlers.WatchedFileHandler(path),
        logging.handlers.RotatingFileHandler(path, maxBytes=10_000),
        logging.handlers.TimedRotatingFileHandler(path),
    ]


@pytest.mark.parametrize("number", range(5))
def test_a_file_that_was_moved_away_is_left_behind(number: int, logger: logging.Logger, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    handlers = file_handlers(log)
    logger.addHandler(handlers.pop(number))
    for other in handlers:
        other.close()
    logger.info("before")
    moved = log.rename(tmp_path / "app.log.1")
    assert reopen_log_files() == []
    logger.info("after")
    logger.info("and after that")
    assert moved.read_text() == "before\n"
    assert log.read_text() == "after\nand after that\n"


def test_a_file_that_was_not_moved_keeps_what_is_in_it(logger: logging.Logger, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    logger.addHandler(logging.FileHandler(log, mode="w"))
    logger.info("before")
    assert reopen_log_files() == []
    logger.info("after")
    assert log.read_text() == "before\nafter\n"


def test_a_handler_behind_another_one_is_found(logger: logging.Logger, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    target = logging.FileHandler(log)
    logger.addHandler(logging.handlers.MemoryHandler(1, target=target))
    logger.info("before")
    log.rename(tmp_path / "app.log.1")
    assert reopen_log_files() == []
    logger.info("after")
    assert log.read_text() == "after\n"
    target.close()


def test_a_file_that_cannot_be_opened_is_named_and_the_old_one_goes_on(logger: logging.Logger, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    logger.addHandler(logging.FileHandler(directory / "app.log"))
    logger.info("before")
    moved = directory.rename(tmp_path / "moved")
    (problem,) = reopen_log_files()
    assert str(directory / "app.log") in problem
    assert "No such file" in problem
    logger.info("after")
    assert (moved / "app.log").read_text() == "before\nafter\n"


def test_where_nobody_logs_logging_is_not_loaded() -> None:
    script = "import sys; from dirtybus.log_files import reopen_log_files as r; print(r(), 'logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


async def test_every_worker_opens_its_files_anew(tmp_path: Path) -> None:
    async with serving(LOUD, workers=2) as arbiter:
        logs = [tmp_path / f"{worker['pid']}.log" for worker in arbiter.status()["workers"]]
        await asyncio.gather(*(arbiter.call(LOUD, "to_a_file_of_its_own", str(tmp_path), 0.1) for _ in logs))
        for log in logs:
            log.rename(log.with_suffix(".1"))
        arbiter.reopen_logs()
        await until(lambda: all(log.exists() for log in logs))
        assert [log.with_suffix(".1").read_text() for log in logs] == ["one\n", "one\n"]


async def test_a_worker_that_is_in_the_middle_of_a_record_opens_its_file_afterwards(tmp_path: Path) -> None:
    async with serving(LOUD) as arbiter:
        log = tmp_path / "slow.log"
        writing = asyncio.create_task(arbiter.call(LOUD, "to_a_file_slowly", str(log)))
        await until(log.with_suffix(".began").exists)
        arbiter.reopen_logs()
        log.with_suffix(".go").touch()
        assert await asyncio.wait_for(writing, 20) == "written"
        assert log.read_text() == "one\n"


async def test_asked_while_it_boots_a_worker_lives_on() -> None:
    async with serving(LOUD, restart_delay=0) as arbiter:
        (worker,) = arbiter.status()["workers"]
        os.kill(worker["pid"], signal.SIGKILL)
        newborn = await until(
            lambda: next((w for w in arbiter.status()["workers"] if w["pid"] not in {0, worker["pid"]}), None)
        )
        asked = 0
        while not any(w["state"] == "idle" for w in arbiter.status()["workers"]):
            arbiter.reopen_logs()
            asked += 1
            await asyncio.sleep(0.002)
        assert asked > 0
        assert arbiter.status()["workers"][0]["pid"] == newborn["pid"]
