"""What is found of the stashes is set against the right peer; a visit brings back what it found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks import stash
from benchmarks.load import Burst
from benchmarks.rounds import VisitFailed
from benchmarks.stash_load import Found, StashPlan, _Load, measure_async, measure_sync
from benchmarks.stash_rows import GUNICORN, VALKEY, StashRow, stash_table, summarise
from benchmarks.subjects.stashes import RAW_ASYNCIO, STASHES

SHORT = StashPlan(calls=20, span_s=5.0, in_flight=2)
OURS = "dirtybus worker"


class Plain:
    """What has to be there; remembers what it was asked for."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def put(self, table: str, key: Any, value: Any) -> None:
        self.entries[table, key] = value

    def get(self, table: str, key: Any) -> Any:
        return self.entries[table, key]  # a load must not read what it has not written


class Rich(Plain):
    def put_many(self, table: str, entries: Mapping[Any, Any]) -> None:
        self.entries.update({(table, key): value for key, value in entries.items()})

    def get_many(self, table: str, keys: list[Any]) -> dict[Any, Any]:
        return {key: self.entries[table, key] for key in keys}

    def incr(self, table: str, key: Any) -> int:
        count: int = self.entries.get((table, key), 0) + 1
        self.entries[table, key] = count
        return count


def loads(found: list[Found]) -> list[tuple[str, int, int, int]]:
    return [(each["load"], each["size_bytes"], each["keys"], each["in_flight"]) for each in found]


def test_what_a_stash_cannot_do_is_not_measured_and_the_crowd_comes_last() -> None:
    assert loads(measure_sync(Plain(), SHORT)) == [
        (name, size, 1, crowd) for crowd in (1, 2) for size in (11, 1024) for name in ("put", "get")
    ]


def test_many_keys_are_measured_by_a_lone_caller_and_counted_one_by_one() -> None:
    rich = Rich()
    found = measure_sync(rich, SHORT)
    assert loads(found).count(("put_many", 11, 1000, 1)) == 1
    assert {crowd for name, _, keys, crowd in loads(found) if keys > 1} == {1}
    assert rich.entries["bench", "counter"] >= 2 * SHORT.calls


def test_the_rate_is_one_of_keys_and_not_of_calls() -> None:
    burst = Burst(latencies_us=[10.0, 20.0, 30.0, 40.0], span_s=2.0, cpu_s=1.0)
    found = _Load(name="get_many", size_bytes=11, keys=1000, call=int).found(burst, 1)
    assert (found["p50_us"], found["ops_per_s"]) == (20.0, 2000.0)


async def test_functions_to_be_awaited_are_measured_alike() -> None:
    class Awaited:
        def __init__(self) -> None:
            self.rich = Rich()

        async def put(self, table: str, key: Any, value: Any) -> None:
            self.rich.put(table, key, value)

        async def get(self, table: str, key: Any) -> Any:
            return self.rich.get(table, key)

    assert loads(await measure_async(Awaited(), SHORT)) == loads(measure_sync(Plain(), SHORT))


def found(rate: float, load: str = "get", keys: int = 1) -> Found:
    return {"load": load, "size_bytes": 11, "keys": keys, "in_flight": 1, "p50_us": 1e6 / rate, "ops_per_s": rate}


def row_of(rows: list[StashRow], contestant: str, load: str = "get") -> StashRow:
    (row,) = [row for row in rows if (row.contestant, row.load) == (contestant, load)]
    return row


def test_ratios_are_taken_within_each_round_before_the_median() -> None:
    # the machine was ten times slower in the second round, for all
    rows = summarise([
        {OURS: [found(300.0)], GUNICORN: [found(100.0)], VALKEY: [found(600.0)]},
        {OURS: [found(30.0)], GUNICORN: [found(10.0)], VALKEY: [found(60.0)]},
        {OURS: [found(300.0)], GUNICORN: [found(90.0)], VALKEY: [found(600.0)]},
    ])  # fmt: skip
    ours = row_of(rows, OURS)
    assert (ours.ops_per_s, ours.x_gunicorn, ours.x_valkey) == (300.0, 3.0, 0.5)
    assert row_of(rows, GUNICORN).x_gunicorn == 1.0


def test_many_keys_stand_against_single_ones_where_the_peer_has_no_other() -> None:
    ours = [found(5000.0, "get_many", 1000)]
    theirs = [found(600.0), found(10_000.0, "get_many", 1000)]
    row = row_of(summarise([{OURS: ours, GUNICORN: [found(100.0)], VALKEY: theirs}]), OURS, "get_many")
    assert (row.x_gunicorn, row.x_valkey) == (50.0, 0.5)


def test_without_its_peers_a_row_has_no_ratios_and_the_table_leaves_them_blank() -> None:
    rows = summarise([{OURS: [found(100.0)]}])
    assert (rows[0].x_gunicorn, rows[0].x_valkey) == (None, None)
    heading, titles, line = stash_table(rows).splitlines()
    assert heading == "get, values of 11 bytes, 1 in flight"
    assert titles.split() == ["contestant", "p50", "µs", "ops/s", "x", "gunicorn", "x", "valkey"]
    assert line.split() == ["dirtybus", "worker", "10,000.0", "100"]


def test_a_row_in_json_has_exactly_the_promised_fields() -> None:
    (row,) = summarise([{OURS: [found(100.0)]}])
    assert list(row.as_mapping()) == [
        "contestant", "load", "size_bytes", "keys", "in_flight", "p50_us", "ops_per_s", "x_gunicorn", "x_valkey",
    ]  # fmt: skip


def test_who_is_not_installed_is_skipped_and_who_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visited: list[str] = []

    def visit(name: str, plan: StashPlan) -> list[Found]:
        visited.append(name)
        if name == GUNICORN:
            raise VisitFailed(f"{name} ended with code 1")
        return [found(100.0)]

    monkeypatch.setattr(stash, "visit", visit)
    monkeypatch.setattr(stash, "_is_there", lambda module: module != "redis")
    assert stash.main(["--rounds", "2", "--only", "worker", "--only", "valkey"]) == 1
    told = capsys.readouterr()
    assert f"skipped: {VALKEY}, as redis is not installed" in told.out
    assert f"left out: {GUNICORN} ended with code 1" in told.err
    assert (visited.count(GUNICORN), visited.count(VALKEY), visited.count(OURS)) == (1, 0, 2)
    assert stash.main(["--rounds", "1", "--only", "nobody"]) == 1


@pytest.mark.parametrize("name", [RAW_ASYNCIO, OURS, "dirtybus client"])
def test_a_visit_brings_back_what_it_found(name: str) -> None:
    assert ("get", 11, 1, 1) in loads(stash.visit(name, SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (_, needs) in STASHES.items() if needs])
def test_a_peer_is_visited_where_it_is_installed(name: str) -> None:
    if missing := stash.missing_of(STASHES[name][1]):
        pytest.skip(f"{missing[0]} is not installed")
    assert ("get", 1024, 1, 2) in loads(stash.visit(name, SHORT))
