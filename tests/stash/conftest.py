from __future__ import annotations

from collections.abc import Iterator

import pytest

from dirtybus import stash
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash, StashOp, StashReply, StashTables


class CountingPort:
    """A local port that remembers what it was asked."""

    def __init__(self, tables: StashTables) -> None:
        self._port = LocalPort(tables)
        self.verbs: list[str] = []

    def ask(self, op: StashOp) -> StashReply:
        self.verbs.append(op.verb)
        return self._port.ask(op)


@pytest.fixture
def tables() -> StashTables:
    return StashTables()


@pytest.fixture
def port(tables: StashTables) -> CountingPort:
    return CountingPort(tables)


@pytest.fixture
def handle(port: CountingPort) -> Stash:
    return Stash(port)


@pytest.fixture
def async_handle(tables: StashTables) -> AsyncStash:
    return AsyncStash(AsyncLocalPort(LocalPort(tables)))


@pytest.fixture
def bound(port: CountingPort) -> Iterator[CountingPort]:
    stash.bind(port)
    yield port
    stash.unbind()
