from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from types import ModuleType

import pytest

from dirtybus import stash
from dirtybus.stash import AsyncLocalPort, LocalPort, Stash, StashOp, StashReply
from dirtybus.stash.keeper import Keeper
from tests.stash.conftest import CountingPort


class Point:
    """Stands for a class that is found by the bound resolver."""


@pytest.fixture
def client_port(monkeypatch: pytest.MonkeyPatch) -> CountingPort:
    """Put a client in place whose default port reaches tables of the test."""
    port = CountingPort(Keeper())
    module = ModuleType("dirtybus.client")
    module.default_stash_port = lambda: port  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dirtybus.client", module)
    stash.unbind()
    return port


def test_the_functions_use_what_is_bound(bound: CountingPort) -> None:
    stash.put("t", "k", 1)
    assert stash.get("t", "k") == 1
    assert stash.get("t", "missing", default=7) == 7
    assert stash.exists("t", "k")
    assert stash.exists("t")
    assert stash.keys("t", pattern="k*") == ["k"]
    assert stash.items("t") == [("k", 1)]
    assert stash.length("t") == stash.info("t")["size"] == 1
    assert stash.setdefault("t", "k", 2) == 1
    assert stash.pop("t", "k") == 1
    assert not stash.delete("t", "k")
    assert stash.clear("t") == 0
    assert stash.ensure("u")
    assert stash.tables() == ["t", "u"]
    assert stash.delete_table("u")
    stash.table("t")["x"] = 1
    assert stash.table("t") == {"x": 1}
    assert len(bound.verbs) == 18


async def test_the_async_functions_use_the_async_port_that_is_bound(bound: CountingPort) -> None:
    keeper = Keeper()
    stash.bind(bound, async_port=AsyncLocalPort(LocalPort(keeper)))
    await stash.aio.put("t", "k", 1)
    assert await stash.aio.table("t")["k"] == 1
    assert bound.verbs == []
    assert len(keeper.state.tables.get("t")) == 1


async def test_without_an_async_port_the_blocking_one_waits_in_a_thread(bound: CountingPort) -> None:
    reached, may_go = threading.Event(), threading.Event()

    class SlowPort:
        def ask(self, op: StashOp) -> StashReply:
            reached.set()
            may_go.wait(10)
            return bound.ask(op)

    stash.bind(SlowPort())
    asking = asyncio.create_task(stash.aio.put("t", "k", 1))
    async with asyncio.timeout(10):
        await asyncio.to_thread(reached.wait, 10)
        assert not asking.done()  # and yet this loop runs
        may_go.set()
        await asking
    assert bound.verbs == ["put"]


def test_a_view_made_before_a_change_of_the_port_follows_it(bound: CountingPort) -> None:
    table = stash.table("t")
    table["k"] = "old"
    stash.bind(LocalPort(Keeper()))
    assert "k" not in table


def test_every_thread_sees_what_is_bound(bound: CountingPort) -> None:
    thread = threading.Thread(target=stash.put, args=("t", "k", 1))
    thread.start()
    thread.join(10)
    assert stash.get("t", "k") == 1


def test_with_nothing_bound_the_default_client_is_used(client_port: CountingPort) -> None:
    stash.put("t", "k", 1)
    assert stash.get("t", "k") == 1
    assert client_port.verbs == ["put", "get"]


async def test_with_nothing_bound_tasks_use_the_default_client_too(client_port: CountingPort) -> None:
    await stash.aio.put("t", "k", 1)
    assert await stash.aio.get("t", "k") == 1
    assert client_port.verbs == ["put", "get"]


def test_the_bound_resolver_finds_the_classes(bound: CountingPort) -> None:
    asked: list[str] = []

    def resolve(module: str, qualname: str) -> type:
        asked.append(f"{module}:{qualname}")
        return Stash

    stash.bind(bound, resolve=resolve)
    from dirtybus.stash.current import resolve_here

    assert resolve_here("m", "C") is Stash
    assert asked == ["m:C"]
    stash.unbind()
    assert resolve_here(__name__, "Point") is Point


def test_tables_is_the_function_although_a_module_is_called_so_too(bound: CountingPort) -> None:
    importlib.import_module("dirtybus.stash.all_tables")
    assert stash.tables() == []


def test_the_errors_can_be_imported_from_where_gunicorn_has_them() -> None:
    assert {"StashError", "StashTableNotFoundError", "StashKeyNotFoundError", "StashTable"} <= set(stash.__all__)
    assert all(hasattr(stash, name) for name in stash.__all__)
