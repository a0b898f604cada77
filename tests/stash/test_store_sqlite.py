from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirtybus.errors import StashError, StashNotStored
from dirtybus.stash import store_rows
from dirtybus.stash.store import Change, Define, Drop, Erase, Row, Upsert
from dirtybus.stash.store_sqlite import SqliteStore
from tests.stash.dict_store import DictStore, value_row
from tests.stash.test_coalesce import CHANGES, _is_sound

ROOT = Path(__file__).parents[2]
INF = float("inf")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.sqlite")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as one:
        one.open()
        yield one


def loaded(path: str) -> DictStore:
    """Return all that the file holds."""
    found = DictStore()
    with closing(SqliteStore(path)) as store:
        store.open()
        for batch in store.load():
            for record in batch:
                found.apply(record)
        found.version = store.version
    return found


def put(store: SqliteStore, number: int, value: bytes = b"v", *, is_durable: bool = True) -> None:
    row = value_row(key=b"%d" % number, value=value, version=number)
    store.write([Define("t", b""), Upsert(row, is_new=True)], number, is_durable=is_durable)


# --- what it keeps ---


@settings(max_examples=40)
@given(st.lists(st.lists(CHANGES, max_size=8), max_size=5))
def test_it_keeps_what_dicts_would(tmp_path_factory: pytest.TempPathFactory, batches: list[list[Change]]) -> None:
    path = str(tmp_path_factory.mktemp("store") / "s")
    model = DictStore()
    with closing(SqliteStore(path)) as store:
        store.open()
        for version, batch in enumerate(batches):
            sound = []
            for change in batch:
                if _is_sound(model, change):
                    model.apply(change)
                    sound.append(change)
            store.write(sound, version, is_durable=False)
    found = loaded(path)
    assert found.content() == model.content()
    assert found.version == max(0, len(batches) - 1)


def test_spans_and_all_lengths_of_values_survive(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_rows, "_PIECE_BYTES", 10_000)
    rows = [
        Row("t", b"%d" % size, os.urandom(size), "value", size, 1.5 + size, 2.5, INF)
        for size in (0, 1, 16_384, 16_385, 20_000, 1_000_001)
    ]
    store.write([Upsert(row, is_new=True) for row in rows], 9, is_durable=True)
    store.close()
    assert list(loaded(path).rows.values()) == sorted(rows, key=lambda row: row.key)


def test_other_spans_of_a_large_value_do_not_write_it_again(store: SqliteStore, path: str) -> None:
    put(store, 1, b"x" * 1_000_000)
    before = Path(path + "-wal").stat().st_size
    row = Row("t", b"1", None, "value", 2, 3.0, 4.0, 5.0)
    store.write([Upsert(row)], 2, is_durable=True)
    assert Path(path + "-wal").stat().st_size - before < 50_000
    store.close()
    assert loaded(path).rows["t", b"1"] == Row("t", b"1", b"x" * 1_000_000, "value", 2, 3.0, 4.0, 5.0)


def test_a_small_value_in_place_of_a_large_one_leaves_nothing_of_it(store: SqliteStore, path: str) -> None:
    put(store, 1, b"x" * 100_000)
    put(store, 1, b"y")
    store.close()
    assert loaded(path).content() == ({"t": b""}, {("t", b"1"): value_row(key=b"1", value=b"y")}, {})


def _sizes(batches: Iterator[Sequence[Define | Upsert]]) -> list[tuple[int, int]]:
    return [
        (len(batch), sum(len(item) for each in batch if isinstance(each, Upsert) for _, item in each.parts_put))
        for batch in batches
    ]


def test_it_is_read_in_batches_of_bounded_size(store: SqliteStore) -> None:
    small = [
        Upsert(Row("t", b"%d" % n, None, "set", 1, INF, INF, INF), ((b"m", b""),), is_new=True) for n in range(3000)
    ]
    items = tuple((n.to_bytes(8, "big"), b"x" * 1_000_000) for n in range(10))
    large = Upsert(Row("u", b"l", None, "list", 1, INF, INF, INF), items, is_new=True)
    store.write([*small, large], 1, is_durable=False)
    sizes = _sizes(store.load())
    assert len(sizes) < 12
    assert max(count for count, _ in sizes) <= 1000
    assert max(size_bytes for _, size_bytes in sizes) <= 5_000_000


# --- whose it is ---


def test_the_file_and_its_log_are_for_this_user_only(path: str) -> None:
    before = os.umask(0)
    try:
        with closing(SqliteStore(path)) as store:
            store.open()
            put(store, 1)
            names = {name: os.stat(Path(path).parent / name).st_mode & 0o777 for name in os.listdir(Path(path).parent)}
    finally:
        os.umask(before)
    assert names == {"state.sqlite": 0o600, "state.sqlite-wal": 0o600}


OTHER = """
import sys
from dirtybus.errors import StashError
from dirtybus.stash.store_sqlite import SqliteStore
try:
    SqliteStore(sys.argv[1]).open()
except StashError as exc:
    print(exc)
"""


def _other_process_says(path: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", OTHER, path], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    return ended.stdout


def test_a_second_owner_is_refused_wherever_it_lives(store: SqliteStore, path: str, tmp_path: Path) -> None:
    assert "is in use by another owner" in _other_process_says(path)
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for other in (path, str(tmp_path / "link"), str(tmp_path / "hard")):
        with pytest.raises(StashError, match="is in use by another owner"):
            SqliteStore(other).open()
    # to look at the file would have lost our locks on it
    assert "is in use by another owner" in _other_process_says(path)
    put(store, 1)
    store.close()
    assert _other_process_says(path) == ""


def test_the_file_is_the_one_it_was_when_we_go_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with closing(SqliteStore("state")) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.open()
        put(store, 1)
    assert loaded(str(tmp_path / "state")).version == 1


def _foreign(path: str) -> None:
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("PRAGMA journal_mode = WAL")
        theirs.execute("CREATE TABLE x (y)")
        theirs.commit()
        shutil.copy(path, path + ".copy")
        shutil.copy(path + "-wal", path + ".copy-wal")
    os.replace(path + ".copy", path)
    os.replace(path + ".copy-wal", path + "-wal")


def _later(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as ours:
        ours.execute("PRAGMA user_version = 99")


def _text(path: str) -> None:
    Path(path).write_text("not a database, but long enough to be one\n" * 200)


def _directory(path: str) -> None:
    Path(path).mkdir()


def _log_alone(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
        put(store, 1)
        shutil.copy(path + "-wal", path + ".copy")
    os.remove(path)
    os.replace(path + ".copy", path + "-wal")


def _emptied(path: str) -> None:
    _log_alone(path)
    Path(path).touch()


def _other_tables(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as ours:
        ours.execute("ALTER TABLE parts RENAME COLUMN item TO iten")


def _unknown_kind(path: str) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
        row = Row("t", b"k", b"v", "heap", 1, INF, INF, INF)  # type: ignore[arg-type]
        store.write([Define("t", b""), Upsert(row, is_new=True)], 1, is_durable=True)


REFUSED: list[tuple[Callable[[str], None], str]] = [
    (_foreign, "a database of another program"),
    (_later, "a later version of dirtybus"),
    (_text, "no database or is damaged"),
    (_directory, "Is a directory"),
    (_log_alone, r"empty or missing, but its log state.sqlite-wal is not"),
    (_emptied, r"empty or missing, but its log state.sqlite-wal is not"),
    (_other_tables, "its tables are not those of a stash"),
    (_unknown_kind, "of the unknown kind 'heap'"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_no_stash_of_ours_is_left_as_it_is(path: str, make: Callable[[str], None], why: str) -> None:
    make(path)
    before = _bytes_beside(path)
    for _ in range(2):
        with pytest.raises(StashError, match=why) as caught:
            loaded(path)
        assert repr(path) in str(caught.value)
    if make is not _unknown_kind:
        assert _bytes_beside(path) == before


def _bytes_beside(path: str) -> dict[str, bytes]:
    """Return what stands in the files around; a log without a byte says nothing, and some Pythons leave it behind."""
    files = [each for each in Path(path).parent.iterdir() if each.is_file()]
    return {each.name: content for each in files if (content := each.read_bytes()) or not each.name.endswith("-wal")}


def test_an_empty_file_becomes_a_stash(path: str) -> None:
    Path(path).touch()
    assert loaded(path).version == 0


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StashError, match=rf"there is no directory '{tmp_path}/a'; make it"):
        SqliteStore(str(tmp_path / "a" / "s")).open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_file_that_may_not_be_opened_is_named(path: str) -> None:
    Path(path).touch(0o000)
    with pytest.raises(StashError, match="Permission denied"):
        SqliteStore(path).open()


# --- what fails ---


def test_a_full_disk_fails_one_write_and_the_next_one_succeeds_when_there_is_room(
    store: SqliteStore, path: str
) -> None:
    put(store, 1)
    assert store._connection is not None
    store._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StashNotStored, match=rf"could not be written to '{path}': .*full.*make room"):
        put(store, 2, b"x" * 500_000)
    store._connection.execute("PRAGMA max_page_count = 100000")
    put(store, 3, b"x" * 500_000)
    store.close()
    assert sorted(key for _, key in loaded(path).rows) == [b"1", b"3"]


def test_a_batch_that_fails_in_the_middle_leaves_nothing(store: SqliteStore, path: str) -> None:
    put(store, 1)
    bad = Upsert(Row("t", b"2", "text", "value", 2, INF, INF, INF), is_new=True)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        store.write([Erase("t", b"1"), Drop("t"), bad], 2, is_durable=True)
    put(store, 3)
    store.close()
    assert sorted(key for _, key in loaded(path).rows) == [b"1", b"3"]


def test_it_closes_twice_and_opens_again(path: str) -> None:
    store = SqliteStore(path)
    for number in (1, 2):
        store.open()
        put(store, number)
        store.close()
        store.close()
    assert loaded(path).version == 2


# --- damage ---


def _filled(path: str, count: int) -> list[int]:
    """Write commits and copy the files as they are; return how long the log was after each."""
    lengths = []
    with closing(SqliteStore(path)) as store:
        store.open()
        assert store._connection is not None
        for number in range(1, count + 1):
            put(store, number, b"%d" % number * (number * 40))
            lengths.append(os.stat(path + "-wal").st_size)
            if number == count // 2:
                store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                lengths[:] = [0] * number
        for suffix in ("", "-wal"):
            shutil.copy(path + suffix, path + ".kept" + suffix)
    return lengths


def _restored(kept: str, path: str, suffix: str, change: Callable[[bytearray], None]) -> None:
    for each in ("", "-wal"):
        data = bytearray(Path(kept + each).read_bytes())
        if each == suffix:
            change(data)
        Path(path + each).write_bytes(data)


def _expected(number: int) -> dict[tuple[str, bytes], Row]:
    return {
        ("t", b"%d" % n): value_row(key=b"%d" % n, value=b"%d" % n * (n * 40), version=n) for n in range(1, number + 1)
    }


COMMITS = 30


def test_a_log_that_is_cut_is_a_prefix_and_loses_nothing_before_the_cut(tmp_path: Path, path: str) -> None:
    lengths = _filled(path, COMMITS)
    chance = random.Random(7)
    for at in [*lengths[COMMITS // 2 :], *(chance.randrange(1, lengths[-1]) for _ in range(60))]:
        _restored(path + ".kept", path, "-wal", lambda data, at=at: data.__delitem__(slice(at, None)))  # type: ignore[misc]
        found = loaded(path)
        whole = sum(length <= at for length in lengths)
        assert found.rows == _expected(found.version)
        assert found.version == whole


def test_a_log_with_a_flipped_byte_is_a_prefix(path: str) -> None:
    lengths = _filled(path, COMMITS)
    chance = random.Random(8)
    for _ in range(60):
        at = chance.randrange(lengths[-1])
        _restored(path + ".kept", path, "-wal", lambda data, at=at: data.__setitem__(at, data[at] ^ 0x55))  # type: ignore[misc]
        found = loaded(path)
        assert found.version >= COMMITS // 2
        assert found.rows == _expected(found.version)


@pytest.mark.parametrize("is_flipped", [True, False], ids=["flipped", "cut"])
def test_a_damaged_main_file_is_an_error_or_right(path: str, is_flipped: bool) -> None:
    with closing(SqliteStore(path)) as store:
        store.open()
        for number in range(1, COMMITS + 1):
            put(store, number, b"%d" % number * (number * 40))
        members = tuple((b"m%d" % n, b"i" * 50) for n in range(200))
        store.write([Upsert(Row("t", b"s", None, "set", 99, INF, INF, INF), members, is_new=True)], 99, is_durable=True)
    right = loaded(path)
    kept = Path(path).read_bytes()
    chance = random.Random(9)
    refused = 0
    places = (
        [*range(100), *(chance.randrange(len(kept)) for _ in range(250))]
        if is_flipped
        else chance.sample(range(1, len(kept)), 100)
    )
    for at in places:
        data = bytearray(kept)
        if is_flipped:
            data[at] ^= chance.randrange(1, 256)
        else:
            del data[at:]
        Path(path).write_bytes(data)
        Path(path + "-wal").unlink(missing_ok=True)
        try:
            found = loaded(path)
        except StashError as exc:
            refused += 1
            assert repr(path) in str(exc)  # noqa: PT017 - either is fine
        else:
            assert found.content() == right.content(), at
            assert found.version == right.version
    assert refused > len(places) // 3
