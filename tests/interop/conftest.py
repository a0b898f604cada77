"""One arbiter of each kind for all interop tests: starting them takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dirtybus.arbiter.arbiter import Arbiter
from tests.interop.servers import gunicorn_arbiter, our_arbiter


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of an arbiter of ours."""
    path = str(tmp_path_factory.mktemp("ours") / "d.sock")
    with our_arbiter(path):
        yield path


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arbiter]:
    """An arbiter of ours with one worker, for this test alone."""
    path = str(tmp_path_factory.mktemp("own") / "d.sock")
    with our_arbiter(path, workers=1, threads=1) as arbiter:
        yield arbiter


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of an arbiter of gunicorn's."""
    path = str(tmp_path_factory.mktemp("theirs") / "g.sock")
    with gunicorn_arbiter(path):
        yield path
