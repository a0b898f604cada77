from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dirtybus import shared_memory
from tests.shared_memory.things import Peer, descriptors


@pytest.fixture
def peer() -> Iterator[Peer]:
    other = Peer()
    yield other
    other.close()


@pytest.fixture(autouse=True)
def leaves_no_descriptor() -> Iterator[None]:
    shared_memory.is_available()
    gc.collect()  # what tests before this one left to the collector is not ours
    before = descriptors()
    yield
    gc.collect()
    assert descriptors() == before
    assert not shared_memory._descriptors._held
