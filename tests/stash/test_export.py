"""Tables as JSON lines, out and in again."""

from __future__ import annotations

import json
import math
import time
from decimal import Decimal
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.errors import StashError, StashTableNotFoundError
from dirtybus.stash import AsyncLocalPort, AsyncStash, LocalPort, Stash
from dirtybus.stash.keeper import Keeper

FIRST = '{"dirtybus":"stash","format":1}'
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))


def fresh() -> Stash:
    return Stash(LocalPort(Keeper()))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(leaves, values, max_size=5), st.sets(st.integers(), max_size=4))
def test_what_is_exported_is_imported_equal_and_of_the_same_types(
    entries: dict[object, object], members: set[int]
) -> None:
    there, here = fresh(), fresh()
    for key, value in entries.items():
        there.put("t", key, value)
    there.add("sets", "s", *members)
    there.push("lists", "l", *members)
    lines = list(there.export())
    assert here.import_lines(lines) == len(entries) + 2
    for table in there.tables():
        assert [(repr(k), repr(v)) for k, v in here.items(table)] == [(repr(k), repr(v)) for k, v in there.items(table)]


def test_the_lines_can_be_read_and_say_what_json_can_say() -> None:
    stash = fresh()
    stash.ensure("t", max_entries=5, on_full="lru")
    stash.put("t", "k", {"x": [1, None]}, expires_in=50)
    stash.put("t", (1, 2), Decimal("1.5"), idle=9)
    first, table, plain, odd = [json.loads(line) for line in stash.export("t")]
    assert first == json.loads(FIRST)
    assert table == {"table": "t", "rules": {"max_entries": 5, "on_full": "lru"}}
    assert plain.pop("expires_at") == pytest.approx(time.time() + 50, abs=5)
    assert plain == {"table": "t", "key": "k", "value": {"x": [1, None]}}
    assert odd.keys() == {"table", "key_base64", "value_base64", "idle_s"}


def test_rules_and_the_rest_of_a_life_go_with_it() -> None:
    there, here = fresh(), fresh()
    there.ensure("t", max_entries=2)
    there.put("t", "k", PurePosixPath("/x"), expires_in=100)
    there.put("t", "for ever", 1, expires_in=math.inf)
    here.import_lines(there.export())
    assert here.info("t")["max_entries"] == 2
    assert here.ttl("t", "k") == pytest.approx(100, abs=5)
    assert here.ttl("t", "for ever") is None


def test_what_has_expired_meanwhile_is_left_out() -> None:
    line = json.dumps({"table": "t", "key": 1, "value": 2, "expires_at": time.time() - 1})
    stash = fresh()
    assert stash.import_lines([FIRST, line]) == 0
    assert stash.tables() == []


@pytest.mark.parametrize(
    "line",
    [
        "", "nothing", "[]", "5", '{"table": 5, "key": 1, "value": 2}', '{"table": "t", "key": 1}',
        '{"table": "t", "key": 1, "value_base64": "%%%"}', '{"table": "t", "key": 1, "value_base64": "AAAA"}',
        '{"table": "t", "key": 1, "value": 2, "expires_at": "soon"}', '{"table": "t", "rules": [1]}',
        '{"table": "t", "key": 1, "value": 2, "idle_s": -1}', '{"table": "t", "key": 1, "value": 2, "expires_at": NaN}',
        '{"table": "t", "key": 1, "value": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)  # fmt: skip
def test_a_line_that_is_none_of_ours_is_named_by_its_number(line: str) -> None:
    stash = fresh()
    with pytest.raises(StashError, match=r"line 3 is none|line 3"):
        stash.import_lines([FIRST, '{"table": "t", "key": "before", "value": 1}', line])


@pytest.mark.parametrize("first", ['{"dirtybus": "other", "format": 1}', '{"dirtybus": "stash", "format": 99}', "{}"])
def test_a_file_of_something_else_is_refused_at_its_first_line(first: str) -> None:
    with pytest.raises(StashError, match="line 1 is none"):
        fresh().import_lines([first])


def test_nothing_is_no_export_and_no_table_is_none() -> None:
    with pytest.raises(StashError, match="nothing to import"):
        fresh().import_lines([])
    with pytest.raises(StashTableNotFoundError):
        list(fresh().export("missing"))


async def test_tasks_export_and_import_large_tables_page_by_page() -> None:
    there, here = (AsyncStash(AsyncLocalPort(LocalPort(Keeper()))) for _ in range(2))
    await there.put_many("t", {number: number for number in range(5000)})
    lines = [line async for line in there.export()]
    assert len(lines) == 5002
    assert await here.import_lines(lines) == 5000
    assert sorted(await here.items("t")) == [(number, number) for number in range(5000)]
