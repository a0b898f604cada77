from __future__ import annotations

from collections.abc import Iterator

import pytest

from dirtybus import stash
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash, StashOp, StashReply
from dirtybus.stash.all_tables import StashTables
from dirtybus.stash.keeper import Keeper


class CountingPort:
    """A local port that remembers what it was asked."""

    def __init__(self, keeper: Keeper) -> None:
        self._port = LocalPort(keeper)
        self.verbs: list[str] = []

    def ask(self, op: StashOp) -> StashReply:
        self.verbs.append(str(op.__struct_config__.tag))
        return self._port.ask(op)


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


@pytest.fixture
def port(keeper: Keeper) -> CountingPort:
    return CountingPort(keeper)


@pytest.fixture
def handle(port: CountingPort) -> Stash:
    return Stash(port)


@pytest.fixture
def async_handle(keeper: Keeper) -> AsyncStash:
    return AsyncStash(AsyncLocalPort(LocalPort(keeper)))


@pytest.fixture
def bound(port: CountingPort) -> Iterator[CountingPort]:
    stash.bind(port)
    yield port
    stash.unbind()


@pytest.fixture
def tables() -> StashTables:
    return StashTables()
