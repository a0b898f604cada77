from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.stash import buckets
from dirtybus.stash.buckets import Buckets, alarm_of, key_of_alarm


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "SPLIT_AT", 4)


def intervals_hold(some: Buckets[int]) -> None:
    """Expect that each key stands where it is looked for, and each alarm with its key."""
    assert some._starts == sorted({*some._starts})
    assert len(some._starts) >= len(some.all)
    for bucket in some.all:
        assert all(some.bucket_of(key) is bucket for key in bucket.entries)
        assert all(some.bucket_of(key_of_alarm(alarm)) is bucket for alarm in bucket.alarms)


@given(st.integers(0, 2**64))
def test_it_is_a_dict(seed: int) -> None:
    chance = random.Random(seed)
    some, plain = Buckets[int](), dict[bytes, int]()
    for number in range(200):
        key = b"%d" % chance.randint(0, 60)
        if chance.random() < 0.7:
            bucket = some.put(key, number)
            plain[key] = number
            assert bucket.entries[key] == number
            bucket.alarms.append(alarm_of(number, key))
        else:
            assert some.pop(key) == plain.pop(key, None)
        assert len(some) == len(plain)
        assert (key in some) is (key in plain)
        assert some.get(key) == plain.get(key)
    intervals_hold(some)
    assert {*some} == {*plain}
    assert {key: value for _, key, value in some.after(None)} == plain
    assert [number for number, _, _ in some.after(None)] == sorted(map(hash, plain))


def test_a_walk_goes_on_after_a_split_where_it_was() -> None:
    some = Buckets[int]()
    steady = [b"steady %d" % number for number in range(50)]
    for key in steady:
        some.put(key, 0)
    seen: list[bytes] = []
    cursor: int | None = None
    for turn in range(1000):
        step = next(some.after(cursor), None)
        if step is None:
            break
        cursor = step[0]
        seen.append(step[1])
        some.put(b"new %d" % turn, 1)
        some.put(b"also new %d" % turn, 1)
        some.pop(b"new %d" % (turn - 3))
    assert len(some.all) > 20
    assert sorted(key for key in seen if key.startswith(b"steady")) == sorted(steady)
    assert len({*seen}) == len(seen)


def test_alarms_go_with_their_keys_and_stay_in_order() -> None:
    some = Buckets[int]()
    for number in range(100):
        key = b"%d" % number
        bucket = some.put(key, number)
        bucket.alarms.append(alarm_of(1000 - number, key))
        bucket.alarms.sort()
    intervals_hold(some)
    assert all(bucket.alarms == sorted(bucket.alarms) for bucket in some.all)
    assert sum(len(bucket.alarms) for bucket in some.all) == 100


def test_keys_of_one_hash_are_kept_together_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "hash", lambda _: -5, raising=False)
    some = Buckets[int]()
    for number in range(100):
        some.put(b"%d" % number, number)
    assert len(some) == 100
    assert [some.get(b"%d" % number) for number in range(100)] == list(range(100))
    assert len([*some.after(None)]) == 100
    assert [*some.after(-5)] == []


def test_what_is_given_up_comes_apart_to_the_last() -> None:
    some = Buckets[int]()
    for number in range(100):
        some.put(b"%d" % number, number)
    for left in reversed(range(100)):
        some.popitem()
        assert len(some) == left
    with pytest.raises(IndexError):
        some.popitem()
